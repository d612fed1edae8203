"""A small run that was never trained, and a server of it on loopback, shared by the files of this folder."""

import json
import threading
import time
import urllib.error
import urllib.request

import jax
import pytest

from azjax.envs import Hex
from azjax.nn import NetworkConfig, make_network
from azjax.serve.app import Server, make_app
from azjax.serve.runs import Folders
from azjax.training import TrainConfig
from tests.training_cases import create_run

GAME = Hex(size=3)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """A folder of runs with one in it: two checkpoints, and metrics of three iterations."""
    folder = tmp_path_factory.mktemp("runs")
    config = TrainConfig(
        game=GAME, network=NetworkConfig(tower="mlp", heads="dense", channels=8), iterations=5
    )
    run = create_run(folder / "tiny", config)
    network = make_network(config.network, config.game)
    for iteration in (1, 3):
        run.save_agent(iteration, network.init(jax.random.key(iteration)))
    for iteration in (1, 2, 3):
        row = {
            "iteration": iteration,
            "seconds": 10.0 * iteration,
            "positions": 100 * iteration,
            "games": iteration,
        }
        row["loss"] = {"total": 2.0, "policy": 1.5 / iteration, "value": 0.5}
        if iteration != 2:
            row["evaluation"] = {"random": {"score": 0.5, "interval": [0.4, 0.6]}}
            row["truth"] = {"policy_accuracy": 0.25 * iteration}
        run.append_metrics(row)
    return folder


@pytest.fixture(scope="session")
def server(run_folder):
    server = Server(Folders([run_folder]), GAME, agents=("uct:3",))
    yield server
    server.close()


@pytest.fixture(scope="session")
def address(server):
    """Where the server listens; it runs in a thread of this process."""
    import uvicorn

    config = uvicorn.Config(
        make_app(server), port=0, log_level="error", backlog=2048, timeout_graceful_shutdown=1
    )
    listening = uvicorn.Server(config)
    thread = threading.Thread(target=listening.run, daemon=True)
    thread.start()
    while not listening.started:
        time.sleep(0.01)
    port = listening.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    listening.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def ask(address):
    """(what, fields) -> status and answer."""

    def post(what, fields, **headers):
        body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
        headers = {"Content-Type": "application/json"} | headers
        request = urllib.request.Request(f"{address}/api/{what}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return post
