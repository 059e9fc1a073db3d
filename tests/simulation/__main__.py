"""Run the simulator: one seed, or seed after seed until stopped."""

import argparse
import random
import sys
import time
import traceback

from tests.simulation.world import World


def main() -> int:
    """Run, and say which seed failed and how to see it again."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--steps", type=int, default=2000, help="steps per seed (default: %(default)s)")
    parser.add_argument("--seeds", type=int, help="stop after this many seeds")
    parser.add_argument("--tell", action="store_true", help="print what happens")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    done = steps = 0
    started = time.monotonic()
    while True:
        world = World(seed, print if options.tell else None)
        try:
            for _ in range(options.steps):
                world.step()
            world.finish()
        except Exception as error:
            traceback.print_exc()
            print(f"\nseed {seed} FAILED at step {world.steps}: {str(error).splitlines()[0]}")
            print(f"see it again with: make simulate SEED={seed} STEPS={world.steps}")
            return 1
        done, steps = done + 1, steps + world.steps
        if options.tell:
            counts = sorted(world.ledger.counts.items(), key=lambda item: -item[1])
            print("\n" + "\n".join(f"{count:8} {name}" for name, count in counts))
        rate = steps / (time.monotonic() - started)
        print(f"seed {seed} ok: {world.exchange.state.seq} events; {done} seeds, {steps} steps, {rate:.0f} steps/s")
        if options.seed is not None or done == options.seeds:
            return 0
        seed += 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nstopped")
