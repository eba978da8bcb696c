"""Where DeepSpeed keeps what a rank holds, by the attributes of its parameters and of the optimizers
that it wraps around torch's. Read when they are there; nothing of DeepSpeed is imported.

Source: deepspeedai/DeepSpeed deepspeed/runtime/zero/{stage_1_and_2,stage3,partition_parameters}.py,
runtime/bf16_optimizer.py, runtime/fp16/fused_optimizer.py @ 0.19.8
"""

from planwright_observer.tensors import within

MASTERS = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition",
           "fp32_groups_flat")
TRAINED = ("bit16_groups", "fp16_groups", "bf16_groups")
GRADIENTS = ("averaged_gradients", "grad_partitions_flat_buffer", "fp32_groups_gradients_flat")


def is_wrapper(kind):
    return any(base.__name__ == "DeepSpeedOptimizer" and base.__module__.startswith("deepspeed.") for base in kind.__mro__)


def masters(wrappers):
    """In full precision, flat. ZeRO-3 hands them to the optimizer within only while it steps."""
    for wrapper in wrappers:
        for name in MASTERS:
            yield from within(wrapper.__dict__.get(name))


def trained(wrappers):
    """The model's own parameters, which gradients are accumulated into."""
    for wrapper in wrappers:
        for name in TRAINED:
            yield from within(wrapper.__dict__.get(name))


def partitions(parameter):
    """This rank's part of a parameter under ZeRO-3, which is empty itself between its uses."""
    return within(parameter.__dict__.get("ds_tensor"))


def gradients(wrappers, parameters):
    for wrapper in wrappers:
        for name in GRADIENTS:
            yield from within(wrapper.__dict__.get(name))
    for parameter in parameters:
        yield from within(parameter.__dict__.get("grad_accum"))


def buckets(wrappers):
    """Of gradients on their way to be reduced: reduce_bucket_size elements, a second time with overlap."""
    for wrapper in wrappers:
        for bucket in wrapper.__dict__.get("ipg_buckets", {}).values():
            yield from within(bucket.buffer)
