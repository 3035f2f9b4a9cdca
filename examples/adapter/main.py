from pathlib import Path

from custom_adapter import QuestionAdapter

from gateway.application import Application
from gateway.settings import Flags, load_settings

app = Application(load_settings(Flags(config=Path("gateway.yaml"))), protocol_adapters=[QuestionAdapter()])
