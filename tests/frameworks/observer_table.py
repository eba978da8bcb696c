"""What the observer says a rank holds, against arithmetic that knows the model's shapes and the
framework's rules and has seen no tensor. Fails above 1 KiB per rank and account.

    observer_table.py OBSERVER_FOLDER [STRATEGY...]
"""

import math
import sys

import model
import ranks as ranks_of

ALLOWED = 1024
WORLDS = (1, 2, 4)
STEPS = 3
MICRO_BATCHES = 2
ACCOUNTS = ("parameters", "gradients", "optimizer")
TENSORS = len(model.shapes())
ELEMENTS = sum(math.prod(shape) for shape in model.shapes())
ADAM_STEP = 4  # torch counts steps in a tensor of fp32


def ddp(world, rank):
    return {"parameters": 4 * ELEMENTS, "gradients": 4 * ELEMENTS, "optimizer": 8 * ELEMENTS + ADAM_STEP * TENSORS}


def fsdp2(world, rank):
    """Rows are dealt out in equal chunks. Parameters and gradients are padded to them, moments not."""
    padded = local = 0
    for rows, *rest in model.shapes():
        chunk = math.ceil(rows / world)
        padded += chunk * math.prod(rest)
        local += max(0, min(chunk, rows - rank * chunk)) * math.prod(rest)
    return {"parameters": 4 * padded, "gradients": 4 * padded, "optimizer": 8 * local + ADAM_STEP * TENSORS}


def zero0(world, rank):
    """bf16, its gradients beside their copies in fp32; masters and moments tensor by tensor."""
    return {"parameters": 2 * ELEMENTS, "gradients": (2 + 4) * ELEMENTS, "optimizer": 12 * ELEMENTS + ADAM_STEP * TENSORS}


def padded_to_ranks(world):
    alignment = 2 * world  # nccl_start_alignment_factor
    return math.ceil(ELEMENTS / alignment) * alignment


def zero12(world, rank):
    """When the optimizer steps, of the gradients only the own part is left, in fp32."""
    flat = padded_to_ranks(world)
    return {"parameters": 2 * flat, "gradients": 4 * flat // world, "optimizer": 12 * flat // world + ADAM_STEP}


def zero1_fp32(world, rank):
    """Gradients are accumulated in fp32, whole on every rank, and those in bf16 stay until after the step."""
    flat = padded_to_ranks(world)
    return {"parameters": 2 * flat, "gradients": 4 * flat + 2 * ELEMENTS, "optimizer": 12 * flat // world + ADAM_STEP}


def zero3(world, rank):
    """Each tensor is dealt out. Gradients: the bf16 buffer, and in fp32 what is being stepped."""
    own = sum(math.ceil(math.prod(shape) / world) for shape in model.shapes())
    return {"parameters": 2 * own, "gradients": (2 + 4) * own, "optimizer": 12 * own + ADAM_STEP}


EXPECTED = {"ddp": ddp, "fsdp2": fsdp2, "fsdp2-mixed": fsdp2, "zero0": zero0, "zero1": zero12,
            "zero1-fp32": zero1_fp32, "zero2": zero12, "zero3": zero3}


def on_cpu(line, account):
    return line["accounts"][account].get("cpu", 0)


def row(strategy, world, reports):
    """The text of one line of the table, and whether it is right. Of the ranks the one that is furthest off."""
    worst = None
    for rank, lines in enumerate(reports):
        last = ranks_of.steps_of(lines)[-1]
        expected = EXPECTED[strategy](world, rank)
        off = {account: on_cpu(last, account) - expected[account] for account in ACCOUNTS}
        if worst is None or max(map(abs, off.values())) > max(map(abs, worst[1].values())):
            worst = last, off
    last, off = worst
    told = sum(on_cpu(last, account) for account in (*ACCOUNTS, "buffers", "communication"))
    cells = [f"{on_cpu(last, account):>11} {off[account]:>+6}" for account in ACCOUNTS]
    elsewhere = last["memory"]["current"] - told if last["memory_source"] == "counting_allocator" else "unknown"
    right = all(abs(each) <= ALLOWED for each in off.values())
    return f"{strategy:<12} {world:>5} {'  '.join(cells)}  {elsewhere:>11}  {'ok' if right else 'WRONG'}", right


def measured(strategy, world, observer):
    run = ranks_of.run("train.py", [strategy, 50, MICRO_BATCHES], world, observer, STEPS)
    if run.codes != [0] * world or len(run.reports) != world:
        return f"{strategy:<12} {world:>5} ended with {run.codes}, {len(run.reports)} reports\n{run.output[0][-2000:]}", False
    return row(strategy, world, run.reports)


def main(observer, *strategies):
    print(f"{ELEMENTS} parameters in {TENSORS} tensors; bytes when step {STEPS} ends, and how far they are from arithmetic")
    print(f"{'':<12} {'ranks':>5} {'parameters':>11} {'off':>6}  {'gradients':>11} {'off':>6}  {'optimizer':>11} {'off':>6}"
          f"  {'elsewhere':>11}")
    verdicts = []
    for strategy in strategies or EXPECTED:
        for world in WORLDS:
            text, right = measured(strategy, world, observer)
            print(text, flush=True)
            verdicts.append(right)
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
