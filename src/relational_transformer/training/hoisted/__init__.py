"""What the steps of a trajectory share is computed once, and its gradient once for all steps.

- `tracing.py`: a function of tensors as a graph of operations.
- `terms.py`: where a step adds, or multiplies by, something learnt that all steps share.
- `distributing.py`: products of encoded features as sums of products, most of which all steps share.
- `splitting.py`: the graph of a step cut in two: what is computed once, and the step itself.
- `gradients.py`: the gradients of what is shared, from what the steps have left side by side.
- `plan.py`: all that traced and compiled when the first trajectory comes.
- `shared_steps.py`: runs the steps of a trajectory by it.
- `trajectory.py`: does so with whole steps.
"""
