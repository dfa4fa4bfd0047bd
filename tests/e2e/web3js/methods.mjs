// Prints {client: {methods: [...], subscriptions: [...]}}: every JSON-RPC name that each client can
// send, read from the packages themselves: node methods.mjs
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(import.meta.url);
const sorted = (names) => [...new Set(names)].sort();

function web3js() {
  const source = readFileSync(require.resolve("@solana/web3.js"), "utf8");
  const methods = [...source.matchAll(/_rpcRequest\(\s*'(\w+)'|methodName: '(\w+)'/g)];
  const subscriptions = source.matchAll(/'(\w+Subscribe)'/g);
  return {
    methods: sorted(methods.map((found) => found[1] ?? found[2])),
    subscriptions: sorted([...subscriptions].map((found) => found[1])),
  };
}

// kit sends any name that it is asked for: its names are those of its types.
function declared(name) {
  const kit = createRequire(require.resolve("@solana/kit"));
  const outer = createRequire(kit.resolve(name.replace("-api", "")));
  const folder = join(dirname(outer.resolve(name)), "types");
  const names = [];
  for (const file of readdirSync(folder).filter((each) => each.endsWith(".d.ts"))) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, body] of text.matchAll(/^export type \w+Api = \{$(.*?)^\};$/gms)) {
      names.push(...[...body.matchAll(/^ {4}(\w+)[(<]/gm)].map((found) => found[1]));
    }
  }
  return sorted(names);
}

const kit = {
  methods: declared("@solana/rpc-api"),
  subscriptions: declared("@solana/rpc-subscriptions-api").map((name) =>
    name.replace(/Notifications$/, "Subscribe"),
  ),
};
console.log(JSON.stringify({ "web3.js": web3js(), kit }));
