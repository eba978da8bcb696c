"""Real frameworks on CPU ranks as witnesses of planwright's ledger: what the observer says a rank holds
when the optimizer steps, and its peak in a steady step, against what `planwright estimate` says for the
same model, target and candidate. Fails above 1 KiB per account, and above 2 % of the peak.

    witness_table.py OBSERVER_FOLDER PLANWRIGHT [NAME...]
"""

import collections
import json
import subprocess
import sys

import ranks as ranks_of
import witness_shape as shape
from observer_table import ACCOUNTS, ALLOWED, WORLDS, on_cpu

ALLOWED_PEAK = 0.02
STEPS = 4
STEADY = 3  # the step whose peak is compared: optimizer states are there, and no account is looked for
THREADS = 1  # of a rank, as ranks.py has it

Witness = collections.namedtuple("Witness", "framework target zero precision recompute micro_batches job knobs")


def witness(framework, target, zero, precision, recompute="none", micro_batches=1, job="pretrain", **knobs):
    return Witness(framework, target, zero, precision, recompute, micro_batches, job, knobs)


def sharded(framework, **knobs):
    return {
        "2-fp32": witness(framework, "fsdp", 2, "fp32", **knobs),
        "2-bf16": witness(framework, "fsdp", 2, "bf16", **knobs),
        "3-fp32": witness(framework, "fsdp", 3, "fp32", **knobs),
        "3-bf16": witness(framework, "fsdp", 3, "bf16", **knobs),
        "3-bf16-full": witness(framework, "fsdp", 3, "bf16", "full", **knobs),
        "3-bf16-twice": witness(framework, "fsdp", 3, "bf16", micro_batches=2, **knobs),
    }


def zero(framework, target, **knobs):
    bucket = {"reduce_bucket_size": str(shape.BUCKET)} if target == "deepspeed" else {}
    rows = {f"{stage}-bf16": witness(framework, target, stage, "bf16", **bucket, **knobs) for stage in range(4)}
    return {**rows, **{f"{name}-twice": each._replace(micro_batches=2) for name, each in rows.items()}}


GROUPS = {
    "loop": {"fp32": witness("ddp", "fsdp", 0, "fp32"), "bf16": witness("ddp", "fsdp", 0, "bf16"),
             "bf16-full": witness("ddp", "fsdp", 0, "bf16", "full"),
             "bf16-twice": witness("ddp", "fsdp", 0, "bf16", micro_batches=2)},
    "fsdp2": sharded("fsdp2"),
    "fsdp1": sharded("fsdp1", engine="fsdp1"),
    "fsdp1-ahead": sharded("fsdp1_ahead", engine="fsdp1", backward_prefetch="pre"),
    "zero": zero("deepspeed", "deepspeed"),
    "trainer": {"fp32": witness("trainer", "hf-trainer", 0, "fp32"), "bf16": witness("trainer", "hf-trainer", 0, "bf16"),
                "bf16-full": witness("trainer", "hf-trainer", 0, "bf16", "full"),
                "bf16-twice": witness("trainer", "hf-trainer", 0, "bf16", micro_batches=2),
                "lora": witness("trainer", "hf-trainer", 0, "bf16", job="lora"),
                "lora-full": witness("trainer", "hf-trainer", 0, "bf16", "full", job="lora")},
    "trainer-zero": zero("trainer_deepspeed", "hf-trainer", engine="deepspeed"),
}
WITNESSES = {f"{group}-{name}": each for group, named in GROUPS.items() for name, each in named.items()}


def ledger(planwright, each, world):
    """By phase."""
    flags = {"model": shape.MODEL, "device": "cpu", "devices": world, "threads": THREADS, "seq": shape.SEQ, "target": each.target,
             "job": each.job, "zero": each.zero, "precision": each.precision, "recompute": each.recompute,
             "micro-batch": shape.MICRO_BATCH, "global-batch": shape.MICRO_BATCH * each.micro_batches * world,
             "knobs": ",".join(f"{name}={value}" for name, value in each.knobs.items())}
    if each.job == "lora":
        flags["lora-rank"] = shape.LORA_RANK
    words = [word for name, value in flags.items() if value != "" for word in (f"--{name}", str(value))]
    told = subprocess.run([planwright, "estimate", "--json", *words], capture_output=True, text=True)
    if told.returncode:
        raise RuntimeError(f"planwright estimate {' '.join(words)}\n{told.stderr}")
    return {phase["phase"]: phase for phase in json.loads(told.stdout)["phases"]}


def accounts_of(phases):
    """When the optimizer steps, without what that makes and drops."""
    stepping = phases["optimizer"]["accounts"]
    return {**{account: stepping[account] for account in ("parameters", "gradients")},
            "optimizer": phases["load"]["accounts"]["optimizer"]}


def row(name, world, phases, reports):
    """The text of one line of the table, and whether it is right. The ledger is of the rank that has most."""
    steps = [ranks_of.steps_of(lines) for lines in reports]
    expected = accounts_of(phases)
    held = {account: max(on_cpu(each[-1], account) for each in steps) for account in ACCOUNTS}
    peak = max(each[STEADY - 1]["memory"]["peak"] for each in steps)
    told = max(phase["allocated_bytes"] for phase in phases.values())
    where = max(phases, key=lambda phase: phases[phase]["allocated_bytes"])
    off = {account: expected[account] - held[account] for account in ACCOUNTS}
    apart = told / peak - 1
    right = all(abs(each) <= ALLOWED for each in off.values()) and abs(apart) <= ALLOWED_PEAK
    cells = [f"{held[account]:,} {off[account]:+}" for account in ACCOUNTS]
    return f"| {name} | {world} | {' | '.join(cells)} | {peak:,} | {apart:+.2%} | {where} | {'ok' if right else 'WRONG'} |", right


def worlds_of(each):
    """FSDP1 of one rank does not shard, and the target refuses it."""
    return [world for world in WORLDS if world > 1 or not each.framework.startswith("fsdp1")]


def compared(name, world, observer, planwright):
    each = WITNESSES[name]
    arguments = [each.framework, each.zero, each.precision, each.recompute, each.micro_batches, 50, each.job]
    run = ranks_of.run("witness.py", arguments, world, observer, STEPS)
    if run.codes != [0] * world or len(run.reports) != world:
        return f"| {name} | {world} | ended with {run.codes}, {len(run.reports)} reports |\n{run.output[0][-2000:]}", False
    return row(name, world, ledger(planwright, each, world), run.reports)


def main(observer, planwright, *names):
    print("| witness | ranks | parameters | gradients | optimizer | peak | ledger's | in | |\n|---|---|---|---|---|---|---|---|---|")
    verdicts = []
    for name in WITNESSES:
        if names and not any(name.startswith(each) for each in names):
            continue
        for world in worlds_of(WITNESSES[name]):
            text, right = compared(name, world, observer, planwright)
            print(text, flush=True)
            verdicts.append(right)
    print(f"{sum(verdicts)} of {len(verdicts)} within {ALLOWED} bytes per account and {ALLOWED_PEAK:.0%} of the peak")
    return 0 if verdicts and all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
