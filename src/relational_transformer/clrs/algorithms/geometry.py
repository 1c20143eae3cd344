"""Geometry in the plane: do two segments meet, and two ways to a convex hull."""

import math

import numpy as np

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.rows import put, put_chain, put_one
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import points
from relational_transformer.clrs.samples.samplers import disk_points, two_segments

SEGMENT_STEPS = 5


@compiled
def _direction(x, y, i, j, k):
    """Cross product of k - i and j - i: which side of the line from i to j point k lies on."""
    return (x[k] - x[i]) * (y[j] - y[i]) - (x[j] - x[i]) * (y[k] - y[i])


@compiled
def _in_box(x, y, i, j, k):
    """Is point k in the box that i and j span?"""
    inside_x = min(x[i], x[j]) <= x[k] <= max(x[i], x[j])
    inside_y = min(y[i], y[j]) <= y[k] <= max(y[i], y[j])
    return inside_x and inside_y


@compiled
def segments_intersect(example, drawn, hints, outputs, row):
    """Do the segments 0-1 and 2-3 meet?

    Hints: `i` and `j` the segment and `k` the end point of the other one looked at, `dir` the side of the segment it
    lies on (a cross product), `on_seg` whether it lies in the segment's box.
    Output: `intersect`, of the whole graph.
    """
    i_h, j_h, k_h, dir_h, on_seg_h = hints
    x, y = drawn[0][example], drawn[1][example]
    side = np.zeros(4)
    boxed = np.zeros(4, np.int8)

    i, j, k = 0, 0, 0
    for step in range(SEGMENT_STEPS):
        if step > 0:
            k = step - 1
            i, j = (2, 3) if k < 2 else (0, 1)
            side[k] = _direction(x, y, i, j, k)
            boxed[k] = _in_box(x, y, i, j, k)
        put_one(i_h[row], i)
        put_one(j_h[row], j)
        put_one(k_h[row], k)
        put(dir_h[row], side)
        put(on_seg_h[row], boxed)
        row += 1

    first_apart = (side[0] > 0 and side[1] < 0) or (side[0] < 0 and side[1] > 0)
    second_apart = (side[2] > 0 and side[3] < 0) or (side[2] < 0 and side[3] > 0)
    meet = first_apart and second_apart
    for k in range(4):
        if side[k] == 0 and boxed[k] == 1:
            meet = True
    outputs[0][example] = meet
    return row


@compiled
def _lowest(x, y):
    """The lowest point, the leftmost of several."""
    best = 0
    for i in range(x.size):
        if y[i] < y[best] or (y[i] == y[best] and x[i] < x[best]):
            best = i
    return best


@compiled
def _turns_right(x, y, i, j, k):
    """Does the way from i over j to k turn right, or go straight on?"""
    return (x[j] - x[i]) * (y[k] - y[i]) - (y[j] - y[i]) * (x[k] - x[i]) <= 0


@compiled
def _record_scan(hints, row, best, angles, in_hull, below, top, i, phase):
    best_h, atans_h, in_hull_h, stack_prev_h, last_stack_h, i_h, phase_h = hints
    put_one(best_h[row], best)
    put(atans_h[row], angles)
    put(in_hull_h[row], in_hull)
    put(stack_prev_h[row], below)
    put_one(last_stack_h[row], top)
    put_one(i_h[row], i)
    put_one(phase_h[row], phase)


@compiled
def graham_scan(example, drawn, hints, outputs, row):
    """Graham's scan (1972): from the lowest point, in order of angle, keep a stack that never turns right.

    Hints: `best` the lowest point, `atans` the angles seen from it, `in_hull_h` what is on the stack, `stack_prev` what
    lies below each node on the stack, `last_stack` its top, `i` the point looked at, and `phase`: 0 start, 1 the lowest
    point is found, 2 the angles are, 3 a point was popped, 4 a point was pushed.
    Output: `in_hull`.
    """
    x, y = drawn[0][example], drawn[1][example]
    size = x.size
    angles = np.zeros(size)
    in_hull = np.zeros(size, np.int8)
    below = np.arange(size)
    _record_scan(hints, row, 0, angles, in_hull, below, 0, 0, 0)
    row += 1

    best = _lowest(x, y)
    in_hull[best] = 1
    top = best
    _record_scan(hints, row, best, angles, in_hull, below, top, best, 1)
    row += 1

    for i in range(size):
        if i != best:
            angles[i] = math.atan2(y[i] - y[best], x[i] - x[best])
    angles[best] = -np.inf  # the lowest point comes first
    by_angle = np.argsort(angles)
    angles[best] = 0.0
    _record_scan(hints, row, best, angles, in_hull, below, top, best, 2)
    row += 1

    for rank in range(1, size):
        i = by_angle[rank]
        while rank >= 3 and _turns_right(x, y, below[top], top, i):
            popped = top
            top = below[top]
            below[popped] = popped
            in_hull[popped] = 0
            _record_scan(hints, row, best, angles, in_hull, below, top, i, 3)
            row += 1
        in_hull[i] = 1
        below[i] = top
        top = i
        _record_scan(hints, row, best, angles, in_hull, below, top, i, 4)
        row += 1

    put(outputs[0][example], in_hull)
    return row


@compiled
def _record_march(hints, row, in_hull, best, last_point, endpoint, i, phase):
    pred_h, in_hull_h, best_h, last_point_h, endpoint_h, i_h, phase_h = hints
    put_chain(pred_h[row], 0, in_hull.size)
    put(in_hull_h[row], in_hull)
    put_one(best_h[row], best)
    put_one(last_point_h[row], last_point)
    put_one(endpoint_h[row], endpoint)
    put_one(i_h[row], i)
    put_one(phase_h[row], phase)


@compiled
def jarvis_march(example, drawn, hints, outputs, row):
    """Jarvis' march (1973): from hull point to hull point, always to the one that leaves all others on one side.

    Hints: `pred_h` the order of the nodes, `in_hull_h` the hull so far, `best` the lowest point, `last_point` the
    hull's newest point, `endpoint` the best next one so far, `i` the point compared with it, and `phase`: 0 start, 1
    marching.
    Output: `in_hull`.
    """
    x, y = drawn[0][example], drawn[1][example]
    size = x.size
    in_hull = np.zeros(size, np.int8)
    _record_march(hints, row, in_hull, 0, 0, 0, 0, 0)
    row += 1

    best = _lowest(x, y)
    last_point = best
    endpoint = best
    while in_hull[endpoint] == 0:
        in_hull[endpoint] = 1
        last_point = endpoint
        endpoint = 0
        _record_march(hints, row, in_hull, best, last_point, endpoint, 0, 1)
        row += 1
        for i in range(size):
            other = i not in (last_point, endpoint)
            if endpoint == last_point or (other and _turns_right(x, y, last_point, endpoint, i)):
                endpoint = i
            _record_march(hints, row, in_hull, best, last_point, endpoint, i, 1)
            row += 1

    put(outputs[0][example], in_hull)
    return row


def _march_steps(drawn: Drawn) -> int:
    size = drawn[0].shape[1]
    return 1 + size * (size + 1)


GEOMETRY = {
    "segments_intersect": Algorithm(two_segments, points, segments_intersect, lambda drawn: SEGMENT_STEPS),
    "graham_scan": Algorithm(disk_points, points, graham_scan, lambda drawn: 3 + 2 * drawn[0].shape[1]),
    "jarvis_march": Algorithm(disk_points, points, jarvis_march, _march_steps),
}
