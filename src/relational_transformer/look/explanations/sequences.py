"""Algorithms on arrays, in words: sorting, searching, greedy choices, the maximum subarray."""

from .explanation import POSITION, Explanation

KEYS = {**POSITION, "key": "the numbers"}
ORDER = "the number before each number, as they stand now"
SORTED = {"pred": "the number before each number in the sorted order", "pred_mask": "the first of the sorted order"}
CHAIN = {"pred_h": "the order of the input", "pred": "the order of the input"}
SPLITTING = {
    "p": "the first number of the part that is being split",
    "r": "the last number of that part, by which it is split",
    "i": "where the next small number goes",
    "j": "the number being looked at",
}
SORT = {"height": "key", "order": "pred_h", "result_order": "pred"}

SEQUENCES = {
    "insertion_sort": Explanation(
        about="Sorts as one sorts a hand of cards: it takes one number after the other and puts it where it belongs "
        "among those before it.",
        view="array",
        words={
            **KEYS,
            **SORTED,
            "pred_h": ORDER,
            "i": "the number that stood where j went",
            "j": "the number just put in its place",
        },
        shown=("pred_h", "i", "j"),
        options=SORT,
    ),
    "bubble_sort": Explanation(
        about="Sorts by comparing neighbours and swapping them where they are in the wrong order: the smallest number "
        "that is left bubbles down to its place.",
        view="array",
        words={
            **KEYS,
            **SORTED,
            "pred_h": ORDER,
            "i": "the number at the place that is being filled",
            "j": "the number that bubbles down",
        },
        shown=("pred_h", "i", "j"),
        options=SORT,
    ),
    "heapsort": Explanation(
        about="Sorts with a heap, a tree in which every number is at least as large as those below it: it takes the "
        "largest off the top, puts it at the end, and repairs the heap.",
        view="array",
        words={
            **KEYS,
            **SORTED,
            "pred_h": ORDER,
            "parent": "the number above each number in the heap",
            "i": "the number that the repair is about",
            "j": "the number that it looks at",
            "largest": "the largest of that number and its children",
            "heap_size": "the last number of the heap",
            "phase": "what it is doing",
        },
        shown=("pred_h", "parent", "j", "largest", "heap_size"),
        classes={"phase": ("building the heap", "taking the largest out", "repairing the heap")},
        options=SORT,
    ),
    "quicksort": Explanation(
        about="Sorts by splitting: numbers up to the last one go to the left of it, larger ones to the right; then "
        "both parts are sorted in the same way.",
        view="array",
        words={**KEYS, **SORTED, **SPLITTING, "pred_h": ORDER},
        shown=("pred_h", "p", "r", "i", "j"),
        options={**SORT, "bands": [["p", "r"]]},
    ),
    "quickselect": Explanation(
        about="Finds the number in the middle without sorting all: it splits the numbers as quicksort does, and goes "
        "on with the part that holds the middle alone.",
        view="array",
        words={
            **KEYS,
            **SPLITTING,
            "pred_h": ORDER,
            "i_rank": "the rank of i, as a share of all numbers",
            "target": "the rank that is sought in this part, as a share of all numbers",
            "pivot": "the number by which the part is split",
            "median": "the number in the middle",
        },
        shown=("pred_h", "p", "r", "i", "j"),
        options={"height": "key", "order": "pred_h", "bands": [["p", "r"]]},
    ),
    "minimum": Explanation(
        about="Finds the smallest number: it looks at one after the other and remembers the smallest so far.",
        view="array",
        words={**KEYS, **CHAIN, "min_h": "the smallest number so far", "i": "the number being looked at"},
        shown=("min_h", "i"),
        options={"height": "key"},
    ),
    "binary_search": Explanation(
        about="Finds where a number belongs in a sorted row: it compares it with the middle of what is left, and "
        "throws away the half that it cannot be in.",
        view="array",
        words={
            **KEYS,
            **CHAIN,
            "target": "the number to find",
            "low": "the first number of what is left",
            "high": "the last number of what is left",
            "mid": "the middle of what is left",
            "return": "the first number that is not below the target",
        },
        shown=("low", "high", "mid"),
        options={"height": "key", "level": "target", "bands": [["low", "high"]]},
    ),
    "find_maximum_subarray_kadane": Explanation(
        about="Finds the stretch of an array with the largest sum in one pass: a stretch is given up as soon as it is "
        "better to start anew.",
        view="array",
        words={
            **KEYS,
            **CHAIN,
            "best_low": "where the best stretch so far starts",
            "best_high": "where the best stretch so far ends",
            "best_sum": "its sum",
            "i": "where the best stretch that ends here starts",
            "j": "the number being looked at",
            "sum": "the sum from i to j",
            "start": "where the best stretch starts",
            "end": "where the best stretch ends",
        },
        shown=("best_low", "best_high", "i", "j", "best_sum", "sum"),
        options={"height": "key", "bands": [["best_low", "best_high"], ["i", "j"], ["start", "end"]]},
    ),
    "activity_selector": Explanation(
        about="Chooses as many activities as possible of which no two overlap: in order of their end, it takes every "
        "one that starts after the last one taken has ended.",
        view="intervals",
        words={
            **POSITION,
            **CHAIN,
            "s": "when each activity starts",
            "f": "when each activity ends",
            "selected_h": "the activities taken so far",
            "m": "the activity being looked at",
            "k": "the last activity taken",
        },
        shown=("selected_h", "m", "k"),
        options={"start": "s", "end": "f"},
    ),
    "task_scheduling": Explanation(
        about="Chooses the tasks that are worth doing, each of which takes one unit of time and has a deadline: in "
        "order of worth, it takes a task while there is time before its deadline.",
        view="array",
        words={
            **POSITION,
            **CHAIN,
            "d": "the deadline of each task",
            "w": "the worth of each task",
            "selected_h": "the tasks taken so far",
            "i": "the task being looked at",
            "t": "the time used up",
        },
        shown=("selected_h", "i", "t"),
        options={"height": "w", "note": "d", "note_words": "by"},
    ),
}
