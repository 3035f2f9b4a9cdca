"""agui-gateway: any AG-UI front end in front of any model."""

__version__ = "0.1.0"
