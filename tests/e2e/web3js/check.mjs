// Drives a localnet with @solana/web3.js alone: node check.mjs <JSON-RPC address>.
// Exits with 0 when everything a client does works; web3.js validates every answer's shape itself.
import assert from "node:assert/strict";
import {
  Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SendTransactionError,
  StakeProgram,
  SystemProgram,
  Transaction,
  TransactionExpiredBlockheightExceededError,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
  sendAndConfirmTransaction,
} from "@solana/web3.js";

const TOKEN = new PublicKey("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
const ASSOCIATED = new PublicKey("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL");

const connection = new Connection(process.argv[2], "confirmed");
const payer = Keypair.generate();
const steps = [];
const step = (name) => steps.push(name);

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

const meta = (pubkey, isWritable, isSigner = false) => ({ pubkey, isWritable, isSigner });

async function airdrop() {
  const latest = await connection.getLatestBlockhash();
  const signature = await connection.requestAirdrop(payer.publicKey, 5 * LAMPORTS_PER_SOL);
  const { value } = await connection.confirmTransaction({ signature, ...latest });
  assert.equal(value.err, null);
  assert.equal(await connection.getBalance(payer.publicKey), 5 * LAMPORTS_PER_SOL);
  step("airdrop");
}

async function transferAndConfirm() {
  const target = Keypair.generate().publicKey;
  const changed = new Promise((resolve) => {
    connection.onAccountChange(target, (account, context) => resolve({ account, context }));
  });
  const logged = new Promise((resolve) => connection.onLogs(payer.publicKey, resolve));
  const slot = new Promise((resolve) => connection.onSlotChange(resolve));
  await slot;
  // Subscribing happens in the background and has no promise of its own.
  while (Object.values(connection._subscriptionsByHash).some((s) => s.state !== "subscribed")) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const transaction = new Transaction().add(
    SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: target,
      lamports: LAMPORTS_PER_SOL,
    }),
  );
  const signature = await sendAndConfirmTransaction(connection, transaction, [payer]);
  assert.equal(await connection.getBalance(target), LAMPORTS_PER_SOL);
  const { account } = await changed;
  assert.equal(account.lamports, LAMPORTS_PER_SOL);
  assert.equal((await logged).signature, signature);
  step("transfer, confirmed by WebSocket, account and logs notified");

  const latest = await connection.getLatestBlockhash();
  const final = await connection.confirmTransaction({ signature, ...latest }, "finalized");
  assert.equal(final.value.err, null);
  const { value: status } = await connection.getSignatureStatus(signature);
  assert.equal(status.confirmationStatus, "finalized");
  const parsed = await connection.getParsedTransaction(signature);
  assert.equal(parsed.transaction.message.instructions[0].parsed.type, "transfer");
  assert.equal(parsed.transaction.message.instructions[0].parsed.info.lamports, LAMPORTS_PER_SOL);
  const raw = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
  assert.equal(raw.meta.fee, 5000);
  assert.equal(raw.version, "legacy");
  const history = await connection.getSignaturesForAddress(target);
  assert.deepEqual(history.map((entry) => entry.signature), [signature]);
  step("finalized, parsed and listed");
}

async function tokens() {
  const mint = Keypair.generate();
  const [account] = PublicKey.findProgramAddressSync(
    [payer.publicKey.toBuffer(), TOKEN.toBuffer(), mint.publicKey.toBuffer()],
    ASSOCIATED,
  );
  const authority = payer.publicKey.toBuffer();
  const instructions = [
    SystemProgram.createAccount({
      fromPubkey: payer.publicKey,
      newAccountPubkey: mint.publicKey,
      lamports: await connection.getMinimumBalanceForRentExemption(82),
      space: 82,
      programId: TOKEN,
    }),
    new TransactionInstruction({
      programId: TOKEN,
      keys: [meta(mint.publicKey, true)],
      data: Buffer.concat([Buffer.from([20, 6]), authority, Buffer.from([0])]),
    }),
    new TransactionInstruction({
      programId: ASSOCIATED,
      keys: [
        meta(payer.publicKey, true, true),
        meta(account, true),
        meta(payer.publicKey, false),
        meta(mint.publicKey, false),
        meta(SystemProgram.programId, false),
        meta(TOKEN, false),
      ],
      data: Buffer.alloc(0),
    }),
    new TransactionInstruction({
      programId: TOKEN,
      keys: [meta(mint.publicKey, true), meta(account, true), meta(payer.publicKey, false, true)],
      data: Buffer.concat([Buffer.from([7]), u64(1_500_000)]),
    }),
  ];
  const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: blockhash,
    instructions,
  }).compileToV0Message();
  const transaction = new VersionedTransaction(message);
  transaction.sign([payer, mint]);
  const simulated = await connection.simulateTransaction(transaction);
  assert.equal(simulated.value.err, null);
  assert.ok(simulated.value.unitsConsumed > 0);
  const signature = await connection.sendTransaction(transaction);
  const confirmed = await connection.confirmTransaction({
    signature,
    blockhash,
    lastValidBlockHeight,
  });
  assert.equal(confirmed.value.err, null);

  for (const filter of [{ mint: mint.publicKey }, { programId: TOKEN }]) {
    const owned = await connection.getParsedTokenAccountsByOwner(payer.publicKey, filter);
    assert.equal(owned.value.length, 1);
    assert.deepEqual(owned.value[0].account.data.parsed.info.tokenAmount, {
      amount: "1500000",
      decimals: 6,
      uiAmount: 1.5,
      uiAmountString: "1.5",
    });
    const plain = await connection.getTokenAccountsByOwner(payer.publicKey, filter);
    assert.equal(plain.value[0].account.data.length, 165);
  }
  assert.equal((await connection.getTokenSupply(mint.publicKey)).value.amount, "1500000");
  assert.equal((await connection.getTokenAccountBalance(account)).value.uiAmountString, "1.5");
  const largest = await connection.getTokenLargestAccounts(mint.publicKey);
  assert.ok(largest.value[0].address.equals(account));
  const parsed = await connection.getParsedTransaction(signature, {
    maxSupportedTransactionVersion: 0,
  });
  assert.equal(parsed.meta.postTokenBalances[0].uiTokenAmount.uiAmountString, "1.5");
  assert.ok(parsed.meta.innerInstructions[0].instructions.some((inner) => inner.parsed));
  const program = await connection.getParsedProgramAccounts(TOKEN, {
    filters: [{ dataSize: 165 }, { memcmp: { offset: 32, bytes: payer.publicKey.toBase58() } }],
  });
  assert.equal(program.length, 1);
  step("token mint and parsed token accounts");
}

async function failedPreflight() {
  const transaction = new Transaction().add(
    SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: Keypair.generate().publicKey,
      lamports: 1_000_000 * LAMPORTS_PER_SOL,
    }),
  );
  await assert.rejects(connection.sendTransaction(transaction, [payer]), (error) => {
    assert.ok(error instanceof SendTransactionError);
    assert.match(error.message, /custom program error: 0x1/);
    assert.ok(error.logs.some((line) => line.includes("insufficient lamports")));
    return true;
  });
  step("failed preflight with its logs");
}

async function expiry() {
  const height = await connection.getBlockHeight();
  const { blockhash } = await connection.getLatestBlockhash();
  const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash });
  transaction.add(
    SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: payer.publicKey,
      lamports: 1,
    }),
  );
  transaction.sign(payer);
  const { default: bs58 } = await import("bs58");
  const signature = bs58.encode(transaction.signature);
  const waiting = connection.confirmTransaction({
    signature,
    blockhash,
    lastValidBlockHeight: height + 3,
  });
  await assert.rejects(waiting, TransactionExpiredBlockheightExceededError);
  step("a transaction that never landed is given up when its blockhash expires");
}

async function everythingElse() {
  const { current, delinquent } = await connection.getVoteAccounts();
  assert.equal(current.length + delinquent.length, 1);
  const vote = new PublicKey(current[0].votePubkey);
  const shown = await connection.getParsedAccountInfo(vote);
  assert.equal(shown.value.data.program, "vote");
  const stakes = await connection.getParsedProgramAccounts(StakeProgram.programId);
  assert.ok(stakes.every((stake) => stake.account.data.program === "stake"));
  await connection.getVersion();
  await connection.getGenesisHash();
  await connection.getEpochInfo();
  await connection.getEpochSchedule();
  await connection.getSupply();
  await connection.getTransactionCount();
  await connection.getRecentPrioritizationFees();
  await connection.getStakeMinimumDelegation();
  await connection.getClusterNodes();
  await connection.getSlotLeader();
  await connection.getFirstAvailableBlock();
  await connection.getMinimumLedgerSlot();
  assert.equal(await connection.getBlockTime(await connection.getSlot()) > 0, true);
  const several = await connection.getMultipleAccountsInfo([payer.publicKey, vote]);
  assert.equal(several.length, 2);
  const { blockhash } = await connection.getLatestBlockhash();
  assert.equal((await connection.isBlockhashValid(blockhash)).value, true);
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: blockhash,
    instructions: [],
  }).compileToV0Message();
  assert.equal((await connection.getFeeForMessage(message)).value, 5000);
  step("the other reads");
}

await airdrop();
await transferAndConfirm();
await tokens();
await failedPreflight();
await expiry();
await everythingElse();
console.log(JSON.stringify(steps));
process.exit(0);
