"""Training loops as people write them, good and bad, which know nothing of the observer.

    scenarios.py NAME
"""

import os
import sys
import threading
import time

import torch
from torch import nn

ITERATIONS = 6


def small_model():
    torch.manual_seed(11)
    return nn.Sequential(nn.Linear(31, 57), nn.GELU(), nn.Linear(57, 1))


def loss_of(model):
    return model(torch.randn(8, 31)).square().mean()


def said(*words):
    """Printed at once: an iteration that began."""
    print(*words, flush=True)


def accumulated():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(ITERATIONS):
        for _ in range(3):
            loss = loss_of(model)
            loss.backward()
            said(repr(loss.item()))
        optimizer.step()
        optimizer.zero_grad()


def two_optimizers():
    first, second = small_model(), small_model()
    optimizers = [torch.optim.AdamW(each.parameters()) for each in (first, second)]
    for _ in range(ITERATIONS):
        said("iteration")
        (loss_of(first) + loss_of(second)).backward()
        for each in optimizers:
            each.step()
        for each in optimizers:
            each.zero_grad()


def adversaries():
    torch.manual_seed(11)
    critic, maker = small_model(), small_model()
    return (critic, torch.optim.AdamW(critic.parameters())), (maker, torch.optim.AdamW(maker.parameters()))


def trained(model, optimizer):
    loss_of(model).backward()
    optimizer.step()
    optimizer.zero_grad()


def critic_in_an_inner_loop():
    """Of a GAN: three times in each iteration, which its other part makes a long one."""
    critic, maker = adversaries()
    for _ in range(ITERATIONS):
        said("iteration")
        for _ in range(3):
            trained(*critic)
        time.sleep(0.1)
        trained(*maker)


def epochs_beside_one_that_is_never_stepped():
    critic, _maker = adversaries()
    for _ in range(5):
        for _ in range(10):
            said("iteration")
            trained(*critic)


def maker_now_and_then():
    """The calls come in the same order, but each critic's is an iteration."""
    critic, maker = adversaries()
    for number in range(1, 2 * ITERATIONS + 1):
        said("iteration")
        trained(*critic)
        if number % 3 == 0:
            trained(*maker)


def optimizer_within_backward():
    model = small_model()
    own = {each: torch.optim.AdamW([each]) for each in model.parameters()}

    def step(parameter):
        own[parameter].step()
        own[parameter].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(step)
    for _ in range(ITERATIONS):
        said("iteration")
        loss_of(model).backward()


def scaled(fused=False):
    """The third iteration's gradients are infinite, and the scaler leaves it out."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    for number in range(1, ITERATIONS + 1):
        loss = loss_of(model) * (float("inf") if number == 3 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def scaled_in_the_optimizer():
    scaled(fused=True)


def not_a_number():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=float("nan"))
    for _ in range(ITERATIONS):
        loss = loss_of(model)
        loss.backward()
        said(loss.item())
        optimizer.step()


def loss_not_a_number():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(ITERATIONS):
        (loss_of(model) * float("nan")).backward()
        optimizer.step()
        optimizer.zero_grad()


def partly_never_set():
    """As the end of a partition, which no gradient reaches."""
    model, padding = small_model(), nn.Parameter(torch.full((3,), float("nan")))
    optimizer = torch.optim.AdamW([*model.parameters(), padding])
    for _ in range(ITERATIONS):
        loss_of(model).backward()
        optimizer.step()


def without_order():
    parameter = nn.Parameter(torch.zeros(8).to(torch.float8_e4m3fn))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for _ in range(ITERATIONS):
        optimizer.step()


def without_an_optimizer():
    model = small_model()
    for _ in range(ITERATIONS):
        loss_of(model).backward()


def spike():
    """The third iteration takes 1000003 bytes more than the others, for a moment."""
    parameter = nn.Parameter(torch.ones(1000))
    parameter.grad = torch.ones(1000)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for number in range(1, ITERATIONS + 1):
        if number == 3:
            torch.empty(1000003, dtype=torch.uint8)
        optimizer.step()


def out_of_memory():
    parameter = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.ones(1000)
    optimizer.step()
    torch.empty(1 << 50, dtype=torch.uint8)


def out_of_memory_caught():
    parameter = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for number in range(1, ITERATIONS + 1):
        parameter.grad = torch.ones(1000)
        if number == 3:
            try:
                torch.empty(1 << 50, dtype=torch.uint8)
            except RuntimeError:
                said("caught")
        optimizer.step()


def out_of_memory_caught_and_left():
    try:
        torch.empty(1 << 50, dtype=torch.uint8)
    except RuntimeError:
        sys.exit(1)


def filled_by_threads():
    """In the third iteration, until nobody gets another thousand bytes."""
    parameter = nn.Parameter(torch.ones(1000))
    parameter.grad = torch.ones(1000)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    held = []

    def fill():
        try:
            while True:
                held.append(torch.empty(1000, dtype=torch.uint8))
        except torch.OutOfMemoryError:
            pass

    for number in range(1, ITERATIONS + 1):
        if number == 3:
            threads = [threading.Thread(target=fill) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            said("pieces", len(held))
            held.clear()
        optimizer.step()


def compiled():
    model = torch.compile(small_model(), backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters())
    counts = torch._dynamo.utils.counters["stats"]
    for _ in range(ITERATIONS):
        loss_of(model).backward()
        optimizer.step()
        optimizer.zero_grad()
        said("graphs", counts["unique_graphs"])


def compiled_step():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(lambda: optimizer.step(), backend="aot_eager")
    for _ in range(ITERATIONS):
        loss_of(model).backward()
        step()
        said("graphs", torch._dynamo.utils.counters["stats"]["unique_graphs"])


def unequal_ranks():
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(small_model())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(50):
        time.sleep(0.3 * torch.distributed.get_rank())
        loss_of(model).backward()
        optimizer.step()
        time.sleep(0.3 * torch.distributed.get_rank())


def lost_peer():
    """Rank 1 leaves after its second step; they have not talked to each other."""
    torch.distributed.init_process_group("gloo")
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(50):
        loss_of(model).backward()
        optimizer.step()
        if number == 1 and torch.distributed.get_rank() == 1:
            os._exit(3)


class Endless(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.randn(31)


def tell_process(_):
    said("loader", os.getpid())


def with_loaders():
    data = torch.utils.data.DataLoader(Endless(), batch_size=4, num_workers=2, worker_init_fn=tell_process)
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in data:
        model(batch).square().mean().backward()
        optimizer.step()


def deepspeed_groups(stage):
    """Weights and biases apart, as the Trainer has them: DeepSpeed steps once for each group."""
    import deepspeed

    deepspeed.init_distributed(dist_backend="gloo")
    model = small_model()
    groups = [{"params": [each for each in model.parameters() if (each.dim() == 1) == flat]} for flat in (False, True)]
    config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
              "gradient_clipping": 1.0, "zero_allow_untested_optimizer": True,
              "zero_optimization": {"stage": stage, "reduce_bucket_size": 10000, "allgather_bucket_size": 10000}}
    optimizer = torch.optim.AdamW(groups)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for _ in range(50):
        said("iteration")
        for _ in range(2):
            engine.backward(engine(torch.randn(8, 31, dtype=torch.bfloat16)).float().square().mean())
            engine.step()


def deepspeed_groups_0():
    deepspeed_groups(0)


def deepspeed_groups_2():
    deepspeed_groups(2)


def deepspeed_groups_3():
    deepspeed_groups(3)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
