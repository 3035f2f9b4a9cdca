from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from gateway.application import Application
from gateway.settings import Flags, load_settings

gateway = Application(load_settings(Flags(config=Path("gateway.yaml"))))


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with gateway.lifespan():
        yield  # and what your program needs itself


app = FastAPI(lifespan=lifespan)
app.mount("/gateway", gateway.asgi)


@app.get("/")
def home():
    return {"agents": "/gateway/agents", "page": "/gateway/"}
