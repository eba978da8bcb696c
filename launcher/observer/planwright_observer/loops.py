"""Whether an optimizer is stepped in a loop within the loop of another: what the order of their calls
cannot tell. `p p p o` is one iteration where the script says `for _ in range(3): p.step()`, and three
where it says `if number % 3 == 0: o.step()`."""

import ast
import functools
import linecache
import sys
import warnings


def call_place(hook_caller):
    """Where a script steps an optimizer, outermost last: the code and the line of each frame. No frame,
    which would keep tensors alive. `hook_caller` is the file that calls the hook."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != hook_caller:
        frame = frame.f_back
    place = []
    while frame is not None:
        if place or frame.f_code.co_filename != hook_caller:
            place.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(place)


def is_within(inner, outer, over_optimizers):
    """Whether the call at the place `inner` is in a loop that is in the innermost loop of the one at
    `outer`. A framework's own loops around both do not count, nor does the loop of a place that steps
    several optimizers in turn (`over_optimizers`). False where a script's text cannot be had."""
    if inner == outer:
        return False
    inner, outer = loops_around(inner), loops_around(outer)
    if inner[-1:] == outer[-1:]:
        while inner and inner[-1:] == outer[-1:]:
            inner, outer = inner[:-1], outer[:-1]
    elif over_optimizers:
        inner = inner[:-1]
    return bool(outer) and len(inner) > len(outer) and inner[: len(outer)] == outer


def loops_around(place):
    """Outermost first, each by its file and lines."""
    return [loop for code, line in reversed(place) for loop in loops_in(code, line)]


def loops_in(code, line):
    return [(code.co_filename, begin, end) for begin, end in loops_of(code.co_filename)
            if code.co_firstlineno <= begin <= line <= end]


@functools.lru_cache(maxsize=None)
def loops_of(file):
    """First and last lines of its loops, in the order of the former."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the text: Python has said them when it ran it
            tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return []
    loops = (ast.For, ast.AsyncFor, ast.While)
    return sorted((each.lineno, each.end_lineno) for each in ast.walk(tree) if isinstance(each, loops))
