"""Marks the steps of a training loop by torch's hooks around every optimizer's step, and writes a line
for each. docs/observer.md says what is in it."""

import atexit
import functools
import os
import socket
import sys
import threading
import time
import weakref

import torch
from torch.optim import optimizer as torch_optimizer

from planwright_observer import accounts, cuda_memory, ending
from planwright_observer.awaited import awaited
from planwright_observer.cpu_memory import CpuMemory, most_resident_bytes, proportional_bytes, resident_bytes
from planwright_observer.failures import Failures, out_of_memory
from planwright_observer.finiteness import Finiteness
from planwright_observer.loops import call_place
from planwright_observer.micro_batches import MicroBatches, counting_parameter
from planwright_observer.report import Report
from planwright_observer.rounds import Rounds

FRAMEWORKS = ("torch", "deepspeed", "accelerate", "transformers", "torchtitan", "megatron.core", "lightning", "peft",
              "trl", "bitsandbytes", "transformer_engine")
# Functions that step an optimizer on zeros to make its state: DeepSpeed's, and torch.distributed.checkpoint's.
NOT_TRAINING = {"initialize_optimizer_states", "_init_optim_state"}
FRAMES_TO_LOOK_AT = 12
# The first of them is unlike the others, the second is the first with optimizer state.
STEPS_WITH_ACCOUNTS = (1, 2)
# Beyond those wanted, for an optimizer that has not been stepped yet: what was may be in an inner loop.
MOST_STEPS_MORE = 20
STEPPING_PLACE = functools.partial(call_place, torch_optimizer.__file__)
UNKNOWN_GRADIENTS = {"gradients": None, "communication": None}


def start():
    observer = Observer(os.path.abspath(os.environ["PLANWRIGHT_OBSERVER"]), number_in("PLANWRIGHT_OBSERVER_STEPS", "steps"),
                        number_in("PLANWRIGHT_OBSERVER_BUDGET", "bytes"))
    torch_optimizer.register_optimizer_step_pre_hook(observer.before)
    torch_optimizer.register_optimizer_step_post_hook(observer.after)
    os.register_at_fork(after_in_child=observer.begin_counting)
    atexit.register(observer.at_exit)
    sys.excepthook = observer.told_of(sys.excepthook, lambda kind, error, trace: error)
    threading.excepthook = observer.told_of(threading.excepthook, lambda facts: facts.exc_value)


def number_in(variable, what):
    """None where it is not set."""
    given = os.environ.get(variable, "")
    if not given:
        return None
    if not given.isdecimal() or not 0 < int(given) <= sys.maxsize:
        raise ValueError(f"{variable} = {given}: is not a number of {what}, 1 or more")
    return int(given)


def versions():
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in FRAMEWORKS}
    return {name: str(version) for name, version in loaded.items() if version}


def is_training():
    frame = sys._getframe(2)
    for _ in range(FRAMES_TO_LOOK_AT):
        if frame is None:
            return True
        if frame.f_code.co_name in NOT_TRAINING:
            return False
        frame = frame.f_back
    return True


def key_of(optimizer):
    """What is stepped: DeepSpeed gives one optimizer now this group of parameters, now that."""
    first = next((each for group in optimizer.param_groups for each in group["params"]), None)
    return id(optimizer), id(first)


def device_of(optimizer):
    if cuda_memory.in_use():
        return "cuda"
    first = next((each for group in optimizer.param_groups for each in group["params"]), None)
    return "cpu" if first is None else first.device.type


def skipped_by_scaler(optimizer):
    """Whether a gradient scaler made this step an empty one. Unknown on a device, which would have to
    be waited for. One that does not call the optimizer at all is not seen: the next step's line
    covers both, with the micro-batches of both."""
    found = getattr(optimizer, "found_inf", None)
    if found is None:
        return False
    return bool(found.item()) if found.device.type == "cpu" else None


def harmless(hook):
    """A fault of the observer ends the observation and not the run. A step that torch.compile traces
    is left as it is: it is not seen."""

    @functools.wraps(hook)
    def guarded(self, *arguments):
        if torch.compiler.is_compiling() or self.faulty:
            return
        try:
            hook(self, *arguments)
        except Exception as error:
            self.faulty = True
            print(f"planwright observer: stopped observing: {type(error).__name__}: {error}", file=sys.stderr)

    return guarded


class Observer:
    def __init__(self, folder, wanted, budget):
        """`wanted` steps, None as many as the script makes; tensors of `budget` bytes on a CPU, None any
        number."""
        self.faulty = False
        self._wanted = wanted
        self._optimizers = weakref.WeakSet()
        self._error = None
        self._cpu = CpuMemory(torch.__version__, budget)
        self._failures = Failures(self._cpu)
        self.begin_counting()
        self._report = Report(folder, self._start_facts)
        self._report.begin()

    def begin_counting(self):
        self._steps = 0
        self._rounds = Rounds()
        self._micro_batches = MicroBatches()
        self._finiteness = Finiteness()
        self._gradients = UNKNOWN_GRADIENTS
        self._owners = None
        self._awaited = None
        self._boundary_s = 0.0
        self._scan_s = 0.0  # of the current step, and not the run's

    @harmless
    def before(self, optimizer, args, kwargs):
        if not is_training():
            return
        self._optimizers.add(optimizer)
        key = key_of(optimizer)
        if self._wanted and self._finiteness.begins(key):
            begin = time.perf_counter()
            self._finiteness.begin(key, optimizer)
            self._scan_s += time.perf_counter() - begin
        if self._has_accounts(self._steps + 1) and self._owners is None and self._rounds.opens(key):
            begin = time.perf_counter()
            self._scan_gradients()
            self._scan_s += time.perf_counter() - begin

    @harmless
    def after(self, optimizer, args, kwargs):
        if not is_training():
            return
        begin = time.perf_counter()
        closes = self._rounds.closes(key_of(optimizer), STEPPING_PLACE)
        self._scan_s += time.perf_counter() - begin
        if closes:
            self._end_step(optimizer)

    def told_of(self, next_hook, error_of):
        """`next_hook`, an excepthook, after its exception has been noted."""

        def hook(*arguments):
            self._note(error_of(*arguments))
            next_hook(*arguments)

        return hook

    @harmless
    def at_exit(self):
        if not self._report.is_open():
            return
        self._tell_of_caught_failures()
        self._report.write("end", {"reason": "error" if self._error else "exit", "steps": self._steps, "error": self._error})

    @harmless
    def _note(self, error):
        self._error = f"{type(error).__name__}: {error}"[:1000]
        if full := out_of_memory(error):
            self._report.write("oom", {"step": self._steps + 1, **self._failures.of_exception(full)})

    def _scan_gradients(self):
        self._owners = accounts.Owners()
        self._gradients = accounts.gradients(self._owners, list(self._optimizers))
        self._micro_batches.count_by(counting_parameter(self._owners, list(self._optimizers)))

    def _tell_of_caught_failures(self):
        if facts := self._failures.since_told():
            self._report.write("oom", {"step": self._steps + 1, **facts})

    def _has_accounts(self, step):
        return step in STEPS_WITH_ACCOUNTS or step == self._wanted

    def _end_step(self, optimizer):
        now = time.perf_counter()
        self._tell_of_caught_failures()
        self._steps = self._rounds.count
        seconds, micro_batches = now - self._boundary_s - self._scan_s, self._micro_batches.take()
        begun = self._steps > 1  # else nobody knows where
        self._report.write("step", {
            "step": self._steps,
            "time_s": seconds if begun else None,
            "synchronized": not cuda_memory.in_use(),
            "micro_batches": micro_batches if begun else None,
            "skipped": skipped_by_scaler(optimizer),
            "device": device_of(optimizer),
            **self._memory(),
            "rss": resident_bytes(),
            **(self._accounts() if self._has_accounts(self._steps) else {}),
        })
        if self._wanted and self._steps >= self._wanted and not self._awaits_another():
            self._end_run()
        self._reset_peaks()
        self._boundary_s, self._scan_s = time.perf_counter(), 0.0

    def _awaits_another(self):
        if not self._rounds.may_be_within() or self._steps - self._wanted >= MOST_STEPS_MORE:
            return False
        if self._awaited is None:
            self._awaited = awaited(list(self._optimizers))
        return bool(self._awaited) and not any(each in self._optimizers for each in self._awaited)

    def _memory(self):
        host = self._cpu.read()
        if not cuda_memory.in_use():
            return {"memory_source": self._cpu.source, "memory": host}
        return {"memory_source": "cuda_caching_allocator", "memory": cuda_memory.read(),
                "host_memory_source": self._cpu.source, "host_memory": host}

    def _accounts(self):
        owners, self._owners = self._owners or accounts.Owners(), None
        gradients, self._gradients = self._gradients, UNKNOWN_GRADIENTS
        optimizers = list(self._optimizers)
        return {"accounts": {**accounts.held(owners, optimizers), **gradients}, "mesh": accounts.mesh(optimizers),
                "rss_peak": most_resident_bytes(), "pss": proportional_bytes(), "versions": versions(),
                "device_name": cuda_memory.name() if cuda_memory.in_use() else None}

    def _reset_peaks(self):
        self._cpu.reset_peak()
        if cuda_memory.in_use():
            cuda_memory.reset_peak()

    def _end_run(self):
        ending.finish_device_work()
        finite = self._finiteness.lasts(list(self._optimizers))
        peers = ending.meet_peers()
        self._report.write("end", {"reason": "steps", "steps": self._steps, "error": None, "peers": peers, "finite": finite})
        ending.leave()

    def _start_facts(self):
        return {"host": socket.gethostname(), "python": sys.version.split()[0], "executable": sys.executable,
                "argv": list(sys.argv), "versions": versions(), "cuda": torch.version.cuda, "steps_wanted": self._wanted,
                "cpu_memory_source": self._cpu.source, "cpu_budget": self._cpu.budget,
                "no_counting_allocator": self._cpu.why_not}
