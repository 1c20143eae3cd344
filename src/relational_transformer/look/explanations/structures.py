"""Algorithms on strings, tables and points, in words."""

from .explanation import POSITION, Explanation

STRINGS = {
    "string": "which of the two strings each character belongs to",
    "pos": "where each character stands in its string",
    "key": "the characters",
    "pred_h": "the order within each string",
    "pred": "the order within each string",
}
LETTERS = ("A", "B", "C", "D")
MATCH = "where the short string first occurs in the long one"
POINTS = {**POSITION, "x": "how far to the right each point lies", "y": "how far up each point lies"}
MOVES = ("↖ both characters match", "↑ leave out the character on the left", "← leave out the character above", "none")

STRUCTURES = {
    "naive_string_matcher": Explanation(
        about="Looks for a short string in a long one: it tries every start, and compares character by character until "
        "two differ.",
        view="strings",
        words={
            **STRINGS,
            "s": "the start being tried",
            "i": "the character of the long string that is compared",
            "j": "the character of the short string that is compared",
            "match": MATCH,
        },
        shown=("s", "i", "j"),
        classes={"key": LETTERS},
        options={"shift": "s", "compare": ["i", "j"]},
    ),
    "kmp_matcher": Explanation(
        about="Looks for a short string in a long one without ever going back: first it finds out how the short string "
        "repeats itself, then it reads the long string once (Knuth, Morris and Pratt).",
        view="strings",
        words={
            **STRINGS,
            "pi": "where to go on in the short string after a mismatch",
            "is_reset": "places from which one has to begin again",
            "k": "the place reached while the links are made",
            "k_reset": "whether that place is before the beginning",
            "q": "the place being linked, or reached while reading",
            "q_reset": "whether that place is before the beginning",
            "s": "where a match would start",
            "i": "the character being read",
            "phase": "what it is doing",
            "match": MATCH,
        },
        shown=("pi", "k", "q", "s", "i", "phase"),
        classes={"key": LETTERS},
        flags={
            "phase": ("linking the short string with itself", "reading the long string"),
            "k_reset": ("k is in the string", "k is before the beginning"),
            "q_reset": ("q is in the string", "q is before the beginning"),
        },
        options={"shift": "s"},
    ),
    "lcs_length": Explanation(
        about="Finds the longest sequence of characters that two strings have in common, from a table: cell (i, j) "
        "says how long it is for the characters up to i of one string and up to j of the other.",
        view="matrix",
        words={
            **STRINGS,
            "b_h": "the move that gives the length of each cell",
            "c": "the length known for each cell",
            "b": "the move that gives the length of each cell",
        },
        shown=("b_h", "c"),
        classes={"key": LETTERS, "b_h": MOVES, "b": MOVES},
        options={"heat": "c", "arrow": "b_h", "result_arrow": "b", "between_strings": True},
    ),
    "matrix_chain_order": Explanation(
        about="Finds the cheapest way to multiply a chain of matrices: for every part of the chain, where to split it "
        "so that the fewest numbers are multiplied.",
        view="matrix",
        words={
            **POSITION,
            "p": "the sizes: matrix k has p of k - 1 rows and p of k columns",
            "pred_h": "the order of the matrices",
            "pred": "the order of the matrices",
            "m": "the least cost known for the product of matrices i to j",
            "s_h": "where that product is split (a number in row i, column j)",
            "msk": "the products whose cost is known",
        },
        shown=("m", "s_h", "msk"),
        options={
            "heat": "m",
            "number": "s_h",
            "known": "msk",
            "result_number": "s",
            "triangle": 1,
            "side": ["p"],
            "rows": "from matrix",
            "columns": "to matrix",
        },
    ),
    "optimal_bst": Explanation(
        about="Builds the search tree in which keys are found with the fewest steps on average, knowing how often each "
        "is looked for: for every range of keys, which one to put at the root.",
        view="matrix",
        words={
            **POSITION,
            "p": "how often each key is looked for",
            "q": "how often something between two keys is looked for",
            "pred_h": "the order of the keys",
            "pred": "the order of the keys",
            "root_h": "the best root for keys i to j - 1 (a number in row i, column j)",
            "e": "the expected cost of the best tree for these keys",
            "w": "how often anything in this range is looked for",
            "msk": "the ranges that are done",
        },
        shown=("root_h", "e", "msk"),
        options={
            "heat": "e",
            "number": "root_h",
            "known": "msk",
            "result_number": "root",
            "triangle": 0,
            "strict": True,
            "side": ["p", "q"],
            "rows": "from key",
            "columns": "to key",
        },
    ),
    "graham_scan": Explanation(
        about="Finds the hull of points, as a rubber band round them would: from the lowest point it goes round by "
        "angle, and takes a point back as soon as the way turns inwards there.",
        view="plane",
        words={
            **POINTS,
            "best": "the lowest point",
            "atans": "the angle under which the lowest point sees each point",
            "in_hull_h": "the points on the stack: the hull so far",
            "stack_prev": "what lies below each point on the stack",
            "last_stack": "the top of the stack",
            "i": "the point being looked at",
            "phase": "what it is doing",
            "in_hull": "the points on the hull",
        },
        shown=("in_hull_h", "stack_prev", "best", "last_stack", "i"),
        classes={
            "phase": (
                "start",
                "the lowest point is found",
                "the angles are known",
                "a point was taken back",
                "a point was added",
            ),
        },
        options={"hull": "in_hull"},
    ),
    "jarvis_march": Explanation(
        about="Finds the hull of points, as a rubber band round them would: from a point of the hull it always goes on "
        "to the point that leaves all others on one side.",
        view="plane",
        words={
            **POINTS,
            "pred_h": "the order of the points",
            "pred": "the order of the points",
            "in_hull_h": "the hull so far",
            "best": "the lowest point",
            "last_point": "the newest point of the hull",
            "endpoint": "the best next point so far",
            "i": "the point compared with it",
            "phase": "what it is doing",
            "in_hull": "the points on the hull",
        },
        shown=("in_hull_h", "last_point", "endpoint", "i"),
        classes={"phase": ("start", "marching")},
        options={"hull": "in_hull", "lines": [["last_point", "endpoint"], ["last_point", "i"]]},
    ),
    "segments_intersect": Explanation(
        about="Finds out whether two segments cross: each must have the ends of the other on different sides.",
        view="plane",
        words={
            **POINTS,
            "i": "one end of the segment looked at",
            "j": "its other end",
            "k": "the end of the other segment that is compared with it",
            "dir": "on which side of the segment each end lies",
            "on_seg": "ends that lie within the box of the segment",
            "intersect": "the answer",
        },
        shown=("i", "j", "k", "dir", "on_seg"),
        flags={"intersect": ("they do not meet", "they meet")},
        options={"segments": [[0, 1], [2, 3]], "lines": [["i", "j"]]},
    ),
}
