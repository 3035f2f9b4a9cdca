/**
 * Media that a model or a tool made: shown by what their bytes are, and always there to be saved.
 *
 * Below: medium_bytes, links. Nothing is loaded from elsewhere, and nothing that could run anything is shown: all else,
 * pictures of SVG too, can be saved.
 */
import { useEffect, useState } from "preact/hooks";
import type { Attachment } from "../chat/contract";
import { PROSE } from "../chat/unseen";
import { Icon } from "./icons";
import { safeAddress } from "./links";
import { LocalImage } from "./local_image";
import type { OpenMedium } from "./medium_bytes";
import { useTexts } from "./texts";
import { Value } from "./value";

export function Media({ media }: { media: readonly Attachment[] }) {
  if (media.length === 0) return null;
  return (
    <div class="agui-media" part="media">
      {media.map((medium, index) =>
        medium.data ? <Local key={index} medium={medium} /> : <Remote key={index} medium={medium} />,
      )}
    </div>
  );
}

/** It is elsewhere: a link, which the person may follow. */
function Remote({ medium }: { medium: Attachment }) {
  const url = safeAddress(medium.url ?? "");
  if (!url || url.protocol === "mailto:") return <Name medium={medium} />;
  return (
    <a
      class="agui-chip"
      href={url.href}
      title={url.href}
      target="_blank"
      rel="noopener noreferrer nofollow"
      data-testid="medium"
    >
      <Name medium={medium} />
      <span class="agui-host">({url.host})</span>
    </a>
  );
}

function Local({ medium }: { medium: Attachment }) {
  const { say, bytes } = useTexts();
  const open = useOpen(medium);
  const [isBroken, setBroken] = useState(false);
  const onBroken = () => setBroken(true);
  const [kind, format] = (isBroken ? undefined : open?.type)?.split("/") ?? [];
  const name = medium.name || undefined;
  return (
    <div class="agui-medium" data-kind={kind} data-testid="medium">
      {kind === "image" && (
        <LocalImage
          attachment={{ ...medium, mimeType: open?.type ?? "" }}
          kind="agui-medium-image"
          name={say("attachment", { name: name ?? say("image") })}
          onBroken={onBroken}
        />
      )}
      {/* biome-ignore lint/a11y/useMediaCaption: nobody knows what is said in it */}
      {kind === "audio" && <audio controls src={open?.played} aria-label={name} onError={onBroken} />}
      {/* biome-ignore lint/a11y/useMediaCaption: as above */}
      {kind === "video" && <video controls src={open?.played} aria-label={name} onError={onBroken} />}
      {open && (
        <a class="agui-chip" href={open.saved} download={name ?? `${medium.kind}.${format ?? "bin"}`}>
          <Name medium={medium} />
          <span class="agui-hint">
            {say("save")} · {bytes(medium.bytes)}
          </span>
        </a>
      )}
    </div>
  );
}

function Name({ medium }: { medium: Attachment }) {
  const { say } = useTexts();
  return (
    <>
      <Icon name={medium.kind === "image" ? "image" : "file"} />
      <span class="agui-chip-name">
        <Value text={medium.name || say("untitled")} kept={PROSE} />
      </span>
    </>
  );
}

/** The medium's bytes, as long as it is shown; undefined until they are read. */
function useOpen(medium: Attachment): OpenMedium | undefined {
  const [open, setOpen] = useState<OpenMedium>();
  const { data } = medium;
  useEffect(() => {
    let made: OpenMedium | undefined;
    let isGone = false;
    import("./medium_bytes").then(
      ({ openMedium }) => {
        if (isGone) return;
        made = openMedium(medium);
        setOpen(made);
      },
      () => undefined,
    );
    return () => {
      isGone = true;
      made?.close();
    };
  }, [data]);
  return open;
}
