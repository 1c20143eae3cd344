"""How states of an algorithm are written into the row of a hint."""

from relational_transformer.clrs.compiled import compiled


@compiled
def put(row, values):
    """Copy one value a node."""
    for k in range(row.size):
        row[k] = values[k]


@compiled
def put_matrix(row, values):
    """Copy one value an edge."""
    for i in range(row.shape[0]):
        for j in range(row.shape[1]):
            row[i, j] = values[i, j]


@compiled
def put_one(row, index):
    """One-hot: 1 at `index`, 0 elsewhere."""
    for k in range(row.size):
        row[k] = 0
    row[index] = 1


@compiled
def put_categories(row, categories):
    """One-hot over the last axis, a category a node."""
    for k in range(row.shape[0]):
        for c in range(row.shape[1]):
            row[k, c] = 0
        row[k, categories[k]] = 1


@compiled
def put_order(row, order):
    """Predecessor pointers: every node points at the one before it in `order`, the first at itself."""
    row[order[0]] = order[0]
    for k in range(1, row.size):
        row[order[k]] = order[k - 1]


@compiled
def put_chain(row, first, size):
    """Predecessor pointers of the nodes first .. first + size - 1 in the order they stand."""
    row[first] = first
    for k in range(first + 1, first + size):
        row[k] = k - 1
