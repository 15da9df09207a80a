"""Keeps secrets out of configurations, which are written to results, to MLflow and to model cards.

A secret is told by the name of its key (api_key), by its look (hf_…, whatever the key), or by where it stands (the
password or signature of an address). Only the name of a variable of the environment may be there: `api_key_env`.
"""

import re
from typing import Any

from r1flow.core.endpoint import is_variable
from r1flow.core.errors import UserError

TOKENS = "hub|hf|auth|access|api|bearer|session|refresh|id|security|service|oauth|user|personal|git|github|gitlab|wandb"
TOKENS += "|mlflow|tracking|openai|anthropic|client|secret|sas"
KEYS = "api|access|secret|private|auth|signing|encryption|account|ssh|hf|wandb|openai|anthropic|aws|azure"
WORDS = "password|passwd|passphrase|passcode|pwd|pw|bearer|secrets?|credentials?|creds?|authorization|auth|cookies?"
WORDS += "|jwt|dsn|connection_string|session_?id|webhook(_url)?|(db|user|admin|root)_?pass"
KEY = re.compile(rf"(.*_)?(({TOKENS})_?tokens?|({KEYS})_?keys?(_id|_pem)?|({WORDS}))_?\d*|token|pass", re.I)
# Of any other token and key: <eos> and 3 are a model's tokens, and question is the name of a field.
OTHER_TOKEN, OTHER_KEY = re.compile(r"(?!(eos|bos|pad|unk|sep|cls|mask)_).+_token", re.I), re.compile(r".+_key", re.I)
MODELS_TOKEN, FIELD = re.compile(r"[<\[{(].*|\d+|.{0,3}", re.S), re.compile(r"[a-z][a-z_.]{0,40}")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|-")  # accessToken, X-Api-Key
IN_ADDRESS = "token|key|secret|passw|pwd|signature|credential|jwt|hmac"
ADDRESS = re.compile(rf"://[^/\s]*@|://\S*[?&;#]([^=&\s]*({IN_ADDRESS})[^=&\s]*|sig|auth|access|sas|code)=", re.I)
LOOK = re.compile(
    r"(?<![A-Za-z0-9])(hf_(?=[a-zA-Z0-9]*[0-9A-Z])[A-Za-z0-9]{6,}|sk-(?:proj-|ant-|or-|(?=[\w-]*\d))[\w-]{8,}|gh[opsur]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|A[KS]IA[0-9A-Z]{12,}|AIza[\w-]{20,}|dapi[0-9a-f]{20,}"
    r"|(?:r8|gsk|npm|dckr_pat|pplx)[_-](?=\w*\d)\w{16,}|nvapi-[\w-]{16,}|pypi-[\w-]{16,}|SG\.[\w-]{16,}"
    r"|sk_(?:live|test)_\w{8,}|xai-\w{16,}|lsv2_(?:pt|sk)_\w{8,}|whsec_\w{16,}|ya29\.[\w-]{16,}"
    r"|shp(?:at|ca|pa|ss)_\w{8,}|do[opr]_v1_\w{8,}|tskey-[\w-]{8,}|hooks\.slack\.com/services/\w|discord\w*\.com/api/webhooks/\w"
    r"|(?i:(?<!\w)(?:password|passwd|pwd|accountkey|sharedaccesskey|sharedsecret))=[^\s;&]"
    r"|(?i:token)\s+[0-9a-f]{40}|(?i:bearer):?\s+[\w.~+/=-]{20,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]+|(?i:bearer|basic):?\s+(?=\S*[\d=])[\w.~+/=-]{6,}|-----BEGIN [A-Z ]*PRIVATE KEY)"
)
ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\b")
REMEDY = (
    "results, MLflow and model cards would show it; set HF_TOKEN in the environment for the hub, and for a server"
    " name the variable that holds its key (api_key_env)"
)


def check_secret(place: str, key: Any, value: Any) -> None:
    """Raise UserError, which doesn't show it, where a configuration's value is a secret; `place` includes the key."""
    name = CAMEL.sub("_", str(key))
    if value and KEY.fullmatch(name):
        raise UserError(f"{place}: {REMEDY}")
    if not isinstance(value, str):
        return
    is_token = OTHER_TOKEN.fullmatch(name) and not MODELS_TOKEN.fullmatch(value)
    if is_token or (OTHER_KEY.fullmatch(name) and not FIELD.fullmatch(value)):
        raise UserError(f"{place}: {REMEDY}")
    if LOOK.search(value):
        raise UserError(f"{place}: this looks like a key or token: {REMEDY}")
    if ADDRESS.search(value):
        raise UserError(f"{place}: the address has a password or key in it: {REMEDY}")
    if name.lower().endswith("key_env") and not is_variable(value):
        raise UserError(f"{place}: this is no name of an environment variable; set one to the key, and write its name")


def check_environment(place: str, given: Any) -> None:
    """Raise UserError where a value is taken from the environment, before it is: a secret may have any look."""
    if isinstance(given, dict | list):
        for key, value in given.items() if isinstance(given, dict) else enumerate(given):
            check_environment(f"{place}.{key}".removeprefix("."), value)
    elif isinstance(given, str) and ENVIRONMENT.search(given):
        raise UserError(
            f"{place}: takes a value from the environment, which may be a secret and is another one elsewhere; write "
            "the value itself, and for a server's key the name of the variable (api_key_env)"
        )
