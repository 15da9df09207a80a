"""Starts vLLM's server for the rollouts of a GRPO stage; how is in training/rollout_server.py."""

import argparse
from pathlib import Path

from r1flow.artifacts.folders import model_folder


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start vLLM's server for stages with vllm_mode: server (conf/grpo/server.yaml). Anyone who can "
        "reach its port can replace the model's weights, so it listens only on this machine unless --host says "
        "otherwise. Other options are passed to vLLM, such as --tensor-parallel-size 4 --max-model-len 12288."
    )
    parser.set_defaults(takes_unknown=True)  # vLLM's
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_qwen2.5_7b/base/model")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="the port to listen on (default: 8000)")


def run(arguments: argparse.Namespace) -> None:
    from r1flow.training.rollout_server import serve_vllm

    serve_vllm(model_folder(arguments.model), arguments.host, arguments.port, arguments.unknown)
