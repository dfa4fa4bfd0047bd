"""A plugin's manifest, as `solward.types.manifest.manifest_json` writes it."""

from __future__ import annotations

from solward.resources.fields import nullable
from solward.resources.schema import array, flag, response_object, text, whole

MANIFEST = nullable(
    response_object(
        {
            "sites": array(text("A host name, with its port where that is not 443.")),
            "operations": nullable(array(text("A name."), "Null: as effects and grants allow.")),
            "assets": nullable(array(text("A symbol or a mint."), "Null: as grants allow.")),
            "storageMb": whole("Megabytes of files.", 0),
            "secrets": array(
                response_object(
                    {
                        "env": text("The service's environment variable."),
                        "site": text("The one site that gets it."),
                        "inQuery": flag("It may stand in a query, not in headers alone."),
                    }
                )
            ),
        },
        description="What the plugin needs; null where it declares nothing.",
    )
)
