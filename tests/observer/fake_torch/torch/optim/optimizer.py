pre_hooks, post_hooks = [], []
register_optimizer_step_pre_hook = pre_hooks.append
register_optimizer_step_post_hook = post_hooks.append


class Optimizer:
    def __init__(self):
        self.param_groups, self.state = [], {}

    def step(self):
        for hook in pre_hooks + post_hooks:
            hook(self, (), {})
