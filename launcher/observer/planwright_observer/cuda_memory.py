"""What torch's caching allocator holds on the current CUDA (or ROCm) device, and what the device has."""

import torch


def in_use():
    return torch.cuda.is_initialized()


def read():
    statistics = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    return {
        "current": statistics.get("allocated_bytes.all.current", 0),
        "peak": statistics.get("allocated_bytes.all.peak", 0),
        "reserved": statistics.get("reserved_bytes.all.current", 0),
        "reserved_peak": statistics.get("reserved_bytes.all.peak", 0),
        "device_used": total - free,
        "device_total": total,
        "retries": statistics.get("num_alloc_retries", 0),
    }


def reset_peak():
    torch.cuda.reset_peak_memory_stats()


def failures():
    return torch.cuda.memory_stats().get("num_ooms", 0) if in_use() else 0


def name():
    return torch.cuda.get_device_name()


def synchronize():
    torch.cuda.synchronize()
