#!/usr/bin/env python3
"""Emits the plans of emit_matrix.cpp and asks the frameworks' own parsers what they make of them.

    parser_matrix.py EMIT_MATRIX ENVIRONMENT [--keep FOLDER]

EMIT_MATRIX is the program built from emit_matrix.cpp, ENVIRONMENT the folder that parsers/setup.sh filled.
Prints a Markdown table, one row per file, and exits 1 unless every parser took its file and ended up with the
plan's values. A parser that the environment's Python is too old for is named and left out.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NEEDED_MINOR = {"megatron": 12}  # of Python 3


def jobs_of(folder):
    """One job per check of each plan, in the plans' order."""
    for path in sorted(pathlib.Path(folder).glob("*/expected.json")):
        plan = json.loads(path.read_text())
        for check in plan["checks"]:
            yield dict(check, plan=plan["plan"], target=plan["target"], path=str(path.parent / check["file"]))


def ask(parser, jobs, environment):
    """The parser's answer to each job, by path."""
    lines = "".join(json.dumps({"path": job["path"], "world": job["world"]}) + "\n" for job in jobs)
    done = subprocess.run([environment / "bin" / "python", HERE / "parsers" / "check_many.py", parser], input=lines,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {answer["path"]: answer for answer in answers}


def too_new(parsers, environment):
    """Of the parsers those that need a newer Python than the environment has."""
    asked = "import sys; print(sys.version_info[1])"
    minor = int(subprocess.run([environment / "bin" / "python", "-c", asked], stdout=subprocess.PIPE, text=True,
                               check=True).stdout)
    return {parser for parser in parsers if minor < NEEDED_MINOR.get(parser, 0)}


def plain(value):
    """A word without the name of the enumeration or case that a library gives it."""
    return value.rpartition(".")[2].lower() if isinstance(value, str) else value


def differences(job, answer):
    """What is wrong with an answer, in words; empty if nothing is."""
    if not answer["ok"]:
        return [f'{answer["error"]["by"]}: {answer["error"]["message"]}']
    values = answer["values"]
    missing = object()
    wrong = []
    for key, expected in job["expected"].items():
        found = values.get(key, missing)
        if found is missing:
            wrong.append(f"{key} is not in the answer")
        elif plain(found) != plain(expected):
            wrong.append(f"{key} is {found}, not {expected}")
    return wrong


def row(*cells):
    print("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("program")
    options.add_argument("environment", type=pathlib.Path)
    options.add_argument("--keep", help="write the plans there and leave them")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or scratch
        subprocess.run([given.program, folder], check=True, stdout=subprocess.DEVNULL)
        jobs = list(jobs_of(folder))
        by_parser = collections.defaultdict(list)
        for job in jobs:
            by_parser[job["parser"]].append(job)
        left_out = too_new(by_parser, given.environment)
        jobs = [job for job in jobs if job["parser"] not in left_out]
        for parser in left_out:
            del by_parser[parser]
            print(f"{parser} is left out: it needs Python 3.{NEEDED_MINOR[parser]}\n")
        answers = {parser: ask(parser, each, given.environment) for parser, each in by_parser.items()}
    failed = report(jobs, answers)
    plans = len({pathlib.Path(job["path"]).parent for job in jobs})
    print(f"\n{plans} plans, {len(jobs)} files, {len(jobs) - failed} as planned, {failed} not")
    return 1 if failed or plans < 60 else 0


def report(jobs, answers):
    failed = 0
    row("target", "plan", "file", "parser", "taken", "values equal")
    row(*["---"] * 6)
    for job in jobs:
        answer = answers[job["parser"]].get(job["path"])
        answer = answer or {"ok": False, "error": {"by": "tool", "message": "no answer"}}
        wrong = differences(job, answer)
        failed += bool(wrong)
        row(job["target"], job["plan"], job["file"], job["parser"], "yes" if answer["ok"] else "**no**",
            "**" + "; ".join(wrong) + "**" if wrong else f'{len(job["expected"])} of {len(job["expected"])}')
    return failed


if __name__ == "__main__":
    sys.exit(main())
