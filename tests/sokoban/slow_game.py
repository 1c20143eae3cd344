"""Sokoban as a person would program it: one game, a grid of characters, no tensors. The tests compare with it.

Written from the rules alone (WMG's published environment), it shares nothing with the package but Boxoban's letters.
"""

UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
DIRECTIONS = {1: UP, 2: DOWN, 3: LEFT, 4: RIGHT}


class SlowGame:
    def __init__(self, rows: list[str]) -> None:
        self.width, self.height = len(rows[0]), len(rows)
        everything = {(r, c): letter for r, row in enumerate(rows) for c, letter in enumerate(row)}
        self.walls = {place for place, letter in everything.items() if letter == "#"}
        self.targets = {place for place, letter in everything.items() if letter == "."}
        self.boxes = {place for place, letter in everything.items() if letter == "$"}
        (self.agent,) = (place for place, letter in everything.items() if letter == "@")
        self.steps = 0
        self.last_action, self.last_reward = 0, 0.0
        self.events: list[str] = []

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Reward, whether the game is over, whether it is solved."""
        self.steps += 1
        before = len(self.boxes & self.targets)
        if action:
            self._go(DIRECTIONS[action])
        after = len(self.boxes & self.targets)
        reward = 0.0
        if after > before:
            reward += 1.0
            self.events.append("onto target")
        if after < before:
            reward -= 1.0
            self.events.append("off target")
        solved = after == len(self.targets)
        if solved:
            reward += 2.0
            self.events.append("solved")
        out_of_time = self.steps == 120
        if out_of_time and not solved:
            self.events.append("out of time")
        self.last_action, self.last_reward = action, reward
        return reward, solved or out_of_time, solved

    def _go(self, direction: tuple[int, int]) -> None:
        ahead = _add(self.agent, direction)
        beyond = _add(ahead, direction)
        if ahead in self.walls:
            self.events.append("wall")
            return
        if ahead in self.boxes:
            if beyond in self.walls or beyond in self.boxes:
                self.events.append("blocked by wall" if beyond in self.walls else "blocked by box")
                return
            self.boxes.remove(ahead)
            self.boxes.add(beyond)
            self.events.append("push")
        self.agent = ahead

    def core(self) -> list[float]:
        action = [float(self.last_action == number) for number in range(5)]
        return [*action, self.last_reward, float(self.agent in self.targets), *self._walls_around(self.agent)]

    def factors(self) -> list[list[float]]:
        found = []
        for row in range(self.height):
            for column in range(self.width):
                place = (row, column)
                if place in self.walls or place == self.agent:
                    continue
                vector: list[float] = []
                for distance in (column - self.agent[1], row - self.agent[0]):
                    one_hot = [0.0] * 15
                    one_hot[7 + distance] = 1.0
                    vector += [distance / 7, *one_hot]
                vector += [float(place in self.targets), float(place in self.boxes), 0.0]
                found.append(vector + self._walls_around(place))
        return found

    def _walls_around(self, place: tuple[int, int]) -> list[float]:
        return [float(_add(place, direction) in self.walls) for direction in (LEFT, UP, RIGHT, DOWN)]


def _add(place: tuple[int, int], direction: tuple[int, int]) -> tuple[int, int]:
    return place[0] + direction[0], place[1] + direction[1]


def shortest_solution(rows: list[str], most_states: int = 300_000) -> list[int] | None:
    """Breadth-first search over agent and boxes: the actions of a shortest solution, None if there is none."""
    start = SlowGame(rows)
    first = (start.agent, frozenset(start.boxes))
    came_from: dict = {first: None}
    frontier = [first]
    while frontier:
        later = []
        for state in frontier:
            for action in DIRECTIONS:
                game = SlowGame(rows)
                game.agent, game.boxes = state[0], set(state[1])
                _, _, solved = game.step(action)
                new = (game.agent, frozenset(game.boxes))
                if new in came_from:
                    continue
                came_from[new] = (state, action)
                if solved:
                    actions = []
                    while came_from[new] is not None:
                        new, action = came_from[new]
                        actions.append(action)
                    return actions[::-1]
                later.append(new)
        if len(came_from) > most_states:
            raise RuntimeError("too many states for this search")
        frontier = later
    return None
