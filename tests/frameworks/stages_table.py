"""Stages of torch.distributed.pipelining on CPU ranks as witnesses of what `planwright estimate` says for
torchtitan: the peak of each stage's ranks in a steady step against the tensors of its largest instant. Fails
above ALLOWED of it.

    stages_table.py OBSERVER_FOLDER PLANWRIGHT [SCHEDULE...]
"""

import json
import subprocess
import sys

import ranks as ranks_of
import witness_shape as shape

STAGES, STEPS, STEADY = 2, 4, 3
SCHEDULES = {"GPipe": ("gpipe", 1), "1F1B": ("1f1b", 1), "Interleaved1F1B": ("interleaved", 2),
             "InterleavedZeroBubble": ("zb", 2)}
ALLOWED = {name: 0.01 if name == "InterleavedZeroBubble" else 0.001 for name in SCHEDULES}
MICRO_BATCHES = (4, 8)


def told(planwright, schedule, micro_batches):
    """By stage. A GPU, whose kernels' order of tensors the script has; the precision of one rank without shards."""
    word, chunks = SCHEDULES[schedule]
    flags = {"model": shape.MODEL, "device": "H100-SXM5-80GB", "devices": STAGES, "seq": shape.SEQ, "target": "torchtitan",
             "pp": STAGES, "vpp": chunks, "schedule": word, "zero": 0, "precision": "fp32",
             "micro-batch": shape.MICRO_BATCH, "global-batch": shape.MICRO_BATCH * micro_batches}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    result = subprocess.run([planwright, "estimate", "--json", *words], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"planwright estimate {' '.join(words)}\n{result.stderr}")
    return [stage["tensor_bytes"] for stage in json.loads(result.stdout)["stages"]]


def measured(observer, schedule, micro_batches):
    arguments = [schedule, SCHEDULES[schedule][1], 1, micro_batches, STEPS]
    run = ranks_of.run("stages.py", arguments, STAGES, observer, STEPS)
    if run.codes != [0] * STAGES or len(run.reports) != STAGES:
        raise RuntimeError(f"{schedule}: ended with {run.codes}, {len(run.reports)} reports\n{run.output[0][-2000:]}")
    return [ranks_of.steps_of(lines)[STEADY - 1]["memory"]["peak"] for lines in run.reports]


def main(observer, planwright, *names):
    print("| schedule | micro-batches | stage | peak | ledger's | |\n|---|---|---|---|---|---|")
    verdicts = []
    for schedule in names or SCHEDULES:
        for micro_batches in MICRO_BATCHES:
            pairs = zip(measured(observer, schedule, micro_batches), told(planwright, schedule, micro_batches))
            for stage, (peak, ledger) in enumerate(pairs):
                apart = ledger / peak - 1
                verdicts.append(abs(apart) <= ALLOWED[schedule])
                verdict = "ok" if verdicts[-1] else "WRONG"
                print(f"| {schedule} | {micro_batches} | {stage} | {peak:,} | {apart:+.3%} | {verdict} |", flush=True)
    print(f"{sum(verdicts)} of {len(verdicts)} as the ledger has them")
    return 0 if verdicts and all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
