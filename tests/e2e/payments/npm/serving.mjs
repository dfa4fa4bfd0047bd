// What the sellers of npm share: the arguments they are given, and how they say where they serve.
import { createServer } from "node:http";
import { createKeyPairSignerFromBytes } from "@solana/kit";

export const given = JSON.parse(process.argv[2]);
export const DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";

export const signer = () => createKeyPairSignerFromBytes(new Uint8Array(given.key));

/** Serve on a free port of this machine, and say the address once connections are taken. */
export function serve(handler) {
  const server = createServer(handler);
  server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
}

/** What a buyer was answered, as its last line. */
export async function tell(answer) {
  console.log(JSON.stringify({ status: answer.status, body: await answer.json() }));
  process.exit(0);
}
