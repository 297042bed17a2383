"""The embedded model's own process: llama.cpp's OpenAI-compatible server on a free loopback port.

Run as a file, not as a module, so that nothing of `app` is loaded beside the engine. One line of JSON on
standard input says what to serve: {"path", "alias", "context", "slots", "key"}. One line on standard output
says where: {"address"}. The process ends when its standard input does, so it never outlives a killed parent.
"""

import json
import os
import sys
import threading


def end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)  # at once: the engine's threads would finish their answers first


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main() -> None:
    wanted = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    # Whatever the engine prints goes to the log; standard output is for the one line alone.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if hasattr(os, "nice"):
        os.nice(5)  # the server goes first: it has other people's replies to bring

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = wanted["path"]
    params.model_alias = {wanted["alias"]}  # else its id would be the file's path
    params.n_ctx = wanted["context"] * wanted["slots"]  # it is divided by the slots
    params.n_parallel = wanted["slots"]
    params.n_batch = params.n_ubatch = 512
    # One core stays free: the engine's threads wait for each other at every layer, and where one of them has to
    # share its core all are slow (on two busy cores 2 tokens/s with two threads, 13 with one).
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, min(4, cores() - 1))
    params.cache_ram_mib = 0  # by default it keeps up to 8 GB of old prompts
    params.warmup = False
    params.offline = True
    params.fit_params = False
    params.verbosity = 0
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [wanted["key"]]
    params.ui = params.endpoint_slots = False
    # As the model's authors recommend, and a little against its habit of going round in circles.
    params.sampling.temp = 0.2
    params.sampling.top_p = 0.9
    params.sampling.penalty_repeat = 1.05
    server = xllamacpp.Server(params)
    answer.write(json.dumps({"address": server.listening_address}) + "\n")
    answer.close()
    threading.Event().wait()


if __name__ == "__main__":
    main()
