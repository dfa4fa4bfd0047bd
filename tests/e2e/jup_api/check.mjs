// Trades at a localnet's market with @jup-ag/api and @solana/web3.js alone: node check.mjs <address>.
// Exits with 0 when every call of the client does what it says; its last line lists them.
import assert from "node:assert/strict";
import { Configuration, ResponseError, SwapApi } from "@jup-ag/api";
import {
  Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from "@solana/web3.js";

const SOL = "So11111111111111111111111111111111111111112";
const USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ";
const BONK = "9RY7JPD4C7RBFzo4FQxAyXELoh1kNYGx8WHrVyW8ADcK";

const connection = new Connection(process.argv[2], "confirmed");
const api = new SwapApi(new Configuration({ basePath: `${process.argv[3]}/swap/v1` }));
const user = Keypair.generate();
const steps = [];

async function units(mint) {
  const held = await connection.getParsedTokenAccountsByOwner(user.publicKey, {
    mint: new PublicKey(mint),
  });
  return held.value.reduce(
    (sum, each) => sum + BigInt(each.account.data.parsed.info.tokenAmount.amount),
    0n,
  );
}

async function land(transaction) {
  transaction.sign([user]);
  const latest = await connection.getLatestBlockhash();
  const signature = await connection.sendTransaction(transaction);
  const { value } = await connection.confirmTransaction({ signature, ...latest });
  assert.equal(value.err, null);
}

async function refused(promise, status, text) {
  const error = await promise.then(() => assert.fail("it was not refused"), (found) => found);
  assert.ok(error instanceof ResponseError, String(error));
  assert.equal(error.response.status, status);
  assert.match((await error.response.json()).error, text);
}

const ask = (inputMint, outputMint, amount, more = {}) =>
  api.quoteGet({ inputMint, outputMint, amount, slippageBps: 50, ...more });

async function quote() {
  const found = await ask(SOL, USDC, LAMPORTS_PER_SOL, {
    swapMode: "ExactIn",
    dexes: ["Solward demo USDC"],
    restrictIntermediateTokens: true,
    onlyDirectRoutes: true,
    asLegacyTransaction: false,
    maxAccounts: 64,
    instructionVersion: "V1",
  });
  assert.equal(found.inAmount, String(LAMPORTS_PER_SOL));
  assert.ok(BigInt(found.otherAmountThreshold) < BigInt(found.outAmount));
  assert.equal(found.routePlan[0].swapInfo.outputMint, USDC);
  steps.push("quoteGet");
  return found;
}

async function swap(quoteResponse) {
  const made = await api.swapPost({
    swapRequest: {
      userPublicKey: user.publicKey.toBase58(),
      quoteResponse,
      dynamicComputeUnitLimit: true,
      prioritizationFeeLamports: {
        priorityLevelWithMaxLamports: { priorityLevel: "medium", maxLamports: 100_000 },
      },
    },
  });
  assert.ok(made.lastValidBlockHeight > (await connection.getBlockHeight()));
  await land(VersionedTransaction.deserialize(Buffer.from(made.swapTransaction, "base64")));
  assert.equal(await units(USDC), BigInt(quoteResponse.outAmount));
  steps.push("swapPost");
}

async function swapInstructions() {
  // Over two pools, composed by the client itself.
  const quoteResponse = await ask(USDC, BONK, 50_000_000);
  assert.equal(quoteResponse.routePlan.length, 2);
  const made = await api.swapInstructionsPost({
    swapRequest: { userPublicKey: user.publicKey.toBase58(), quoteResponse },
  });
  const instructions = [
    ...made.computeBudgetInstructions,
    ...made.setupInstructions,
    made.swapInstruction,
    ...(made.cleanupInstruction ? [made.cleanupInstruction] : []),
    ...made.otherInstructions,
  ].map(
    ({ programId, accounts, data }) =>
      new TransactionInstruction({
        programId: new PublicKey(programId),
        keys: accounts.map((each) => ({ ...each, pubkey: new PublicKey(each.pubkey) })),
        data: Buffer.from(data, "base64"),
      }),
  );
  const { blockhash } = await connection.getLatestBlockhash();
  const message = new TransactionMessage({
    payerKey: user.publicKey,
    recentBlockhash: blockhash,
    instructions,
  });
  await land(new VersionedTransaction(message.compileToV0Message([])));
  assert.equal(await units(BONK), BigInt(quoteResponse.outAmount));
  steps.push("swapInstructionsPost");
}

async function labels() {
  const found = await api.programIdToLabelGet();
  assert.deepEqual(Object.values(found), ["Solward demo"]);
  steps.push("programIdToLabelGet");
}

async function refusals() {
  await refused(ask(SOL, SOL, 1), 400, /inputMint and outputMint are the same/);
  await refused(ask(SOL, USDC, 0), 400, /amount must be an integer from 1/);
  await refused(ask(SOL, USDC, 1e9, { platformFeeBps: 5 }), 400, /does not serve platformFeeBps/);
  const quoteResponse = await ask(SOL, USDC, 1_000_000);
  const userPublicKey = user.publicKey.toBase58();
  const swapRequest = { userPublicKey, quoteResponse, feeAccount: userPublicKey };
  await refused(api.swapPost({ swapRequest }), 400, /does not serve feeAccount/);
  steps.push("refusals");
}

const airdrop = await connection.requestAirdrop(user.publicKey, 2 * LAMPORTS_PER_SOL);
await connection.confirmTransaction({
  signature: airdrop,
  ...(await connection.getLatestBlockhash()),
});
await swap(await quote());
await swapInstructions();
await labels();
await refusals();
console.log(JSON.stringify(steps));
process.exit(0);
