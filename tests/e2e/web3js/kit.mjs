// Drives a localnet with @solana/kit alone: node kit.mjs <JSON-RPC address> <WebSocket address>.
// Exits with 0 when everything a client does works.
import assert from "node:assert/strict";
import {
  address,
  airdropFactory,
  appendTransactionMessageInstruction,
  assertIsTransactionWithBlockhashLifetime,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  compileTransaction,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  getCompiledTransactionMessageEncoder,
  compileTransactionMessage,
  getBase64Decoder,
  getSignatureFromTransaction,
  isSolanaError,
  lamports,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from "@solana/kit";

const SYSTEM = address("11111111111111111111111111111111");
const TOKEN = address("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
const USDC = address("7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ");
const SOL = 1_000_000_000n;

const [, , http, ws] = process.argv;
const rpc = createSolanaRpc(http);
const rpcSubscriptions = createSolanaRpcSubscriptions(ws);
const steps = [];
const step = (name) => steps.push(name);
const payer = await generateKeyPairSigner();

function transfer(from, to, amount) {
  const data = new Uint8Array(12);
  const view = new DataView(data.buffer);
  view.setUint32(0, 2, true);
  view.setBigUint64(4, amount, true);
  return {
    programAddress: SYSTEM,
    accounts: [
      { address: from.address, role: 3, signer: from },
      { address: to, role: 1 },
    ],
    data,
  };
}

async function message(instruction, version = 0) {
  const { value: latest } = await rpc.getLatestBlockhash().send();
  return pipe(
    createTransactionMessage({ version }),
    (each) => setTransactionMessageFeePayerSigner(payer, each),
    (each) => setTransactionMessageLifetimeUsingBlockhash(latest, each),
    (each) => appendTransactionMessageInstruction(instruction, each),
  );
}

async function signed(instruction, version) {
  const made = await signTransactionMessageWithSigners(await message(instruction, version));
  assertIsTransactionWithBlockhashLifetime(made);
  return made;
}

// Of what comes from now on: kit keeps nothing for an iteration that has not begun.
async function first(subscription, wanted = () => true) {
  for await (const each of subscription) if (wanted(each)) return each;
}

async function airdrop() {
  const ask = airdropFactory({ rpc, rpcSubscriptions });
  const amount = lamports(5n * SOL);
  await ask({ recipientAddress: payer.address, lamports: amount, commitment: "confirmed" });
  assert.equal((await rpc.getBalance(payer.address).send()).value, amount);
  step("airdrop, confirmed by subscription");
}

async function transferAndConfirm() {
  const target = (await generateKeyPairSigner()).address;
  const abortSignal = AbortSignal.timeout(20_000);
  const commitment = "confirmed";
  const of = { abortSignal };
  const base64 = { commitment, encoding: "base64" };
  const [changed, owned, logged, slots, roots] = await Promise.all([
    rpcSubscriptions.accountNotifications(target, base64).subscribe(of),
    rpcSubscriptions.programNotifications(SYSTEM, base64).subscribe(of),
    rpcSubscriptions.logsNotifications({ mentions: [payer.address] }, { commitment }).subscribe(of),
    rpcSubscriptions.slotNotifications().subscribe(of),
    rpcSubscriptions.rootNotifications().subscribe(of),
  ]);
  const told = [
    first(changed),
    first(owned, (each) => each.value.pubkey === target),
    first(logged),
    first(slots),
    first(roots),
  ];
  const transaction = await signed(transfer(payer, target, SOL));
  const send = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions });
  await send(transaction, { commitment: "confirmed" });
  const signature = getSignatureFromTransaction(transaction);
  const [account, mine, logs, slot, root] = await Promise.all(told);
  assert.equal(account.value.lamports, SOL);
  assert.equal(mine.value.account.lamports, SOL);
  assert.equal(logs.value.signature, signature);
  assert.ok(slot.slot > root - 1_000n);
  step("transfer, confirmed; account, program, logs, slot and root notified");

  const { value } = await rpc.getSignatureStatuses([signature]).send();
  assert.equal(value[0].err, null);
  const options = { commitment, maxSupportedTransactionVersion: 0, encoding: "jsonParsed" };
  const landed = await rpc.getTransaction(signature, options).send();
  assert.equal(landed.transaction.message.instructions[0].parsed.type, "transfer");
  assert.equal(landed.meta.fee, 5000n);
  const history = await rpc.getSignaturesForAddress(target, { commitment }).send();
  assert.deepEqual(history.map((each) => each.signature), [signature]);
  step("status, parsed transaction and history");
}

async function refusals() {
  const stranger = (await generateKeyPairSigner()).address;
  const wire = getBase64EncodedWireTransaction(
    await signed(transfer(payer, stranger, 1_000_000n * SOL)),
  );
  const encoding = "base64";
  const simulated = await rpc
    .simulateTransaction(wire, { encoding, replaceRecentBlockhash: true })
    .send();
  // kit leaves these as bigint.
  assert.equal(Number(simulated.value.err.InstructionError[1].Custom), 1);
  await assert.rejects(rpc.sendTransaction(wire, { encoding }).send(), (error) => {
    assert.ok(isSolanaError(error));
    assert.ok(error.context.logs.some((line) => line.includes("insufficient lamports")));
    return true;
  });
  await assert.rejects(rpc.getHighestSnapshotSlot().send(), (error) => {
    assert.equal(error.context.__code, -32601);
    return true;
  });
  step("a failed preflight with its logs, and a method that is not served");
}

async function tokens() {
  const largest = await rpc.getTokenLargestAccounts(USDC).send();
  const account = largest.value[0].address;
  const parsed = { encoding: "jsonParsed" };
  const { value } = await rpc.getAccountInfo(account, parsed).send();
  const info = value.data.parsed.info;
  assert.equal(info.mint, USDC);
  const owned = await rpc.getTokenAccountsByOwner(info.owner, { mint: USDC }, parsed).send();
  assert.equal(owned.value.length, 1);
  const delegated = await rpc
    .getTokenAccountsByDelegate(info.owner, { programId: TOKEN }, parsed)
    .send();
  assert.equal(delegated.value.length, 0);
  assert.equal((await rpc.getTokenAccountBalance(account).send()).value.decimals, 6);
  assert.ok(BigInt((await rpc.getTokenSupply(USDC).send()).value.amount) > 0n);
  const filters = [{ dataSize: 165n }, { memcmp: { offset: 0n, bytes: USDC, encoding: "base58" } }];
  const held = await rpc.getProgramAccounts(TOKEN, { encoding: "base64", filters }).send();
  assert.ok(held.some((each) => each.pubkey === account));
  const several = await rpc.getMultipleAccounts([account, USDC], { encoding: "base64" }).send();
  assert.equal(several.value.length, 2);
  step("token accounts, by owner, delegate, mint and program");
}

async function everythingElse() {
  const slot = await rpc.getSlot().send();
  const identity = (await rpc.getIdentity().send()).identity;
  const { current } = await rpc.getVoteAccounts().send();
  assert.equal(current[0].nodePubkey, identity);
  assert.equal(await rpc.getHealth().send(), "ok");
  const { epoch, slotsInEpoch } = await rpc.getEpochInfo().send();
  assert.equal((await rpc.getEpochSchedule().send()).slotsPerEpoch, slotsInEpoch);
  const schedule = await rpc.getLeaderSchedule().send();
  assert.equal(BigInt(schedule[identity].length), slotsInEpoch);
  const produced = (await rpc.getBlockProduction({ identity }).send()).value;
  assert.equal(produced.byIdentity[identity][0], produced.byIdentity[identity][1]);
  assert.equal(Number((await rpc.getInflationRate().send()).total), 0);
  assert.equal(Number((await rpc.getInflationGovernor().send()).initial), 0);
  assert.deepEqual(await rpc.getInflationReward([payer.address]).send(), [null]);
  assert.ok((await rpc.getBlockCommitment(slot).send()).totalStake > 0n);
  const blocks = await rpc.getBlocksWithLimit(0n, 3).send();
  assert.deepEqual(blocks, await rpc.getBlocks(0n, 2n).send());
  const details = { transactionDetails: "full", maxSupportedTransactionVersion: 0 };
  const block = await rpc.getBlock(blocks[1], { ...details, encoding: "json" }).send();
  assert.equal(block.parentSlot, 0n);
  assert.ok((await rpc.getBlockTime(slot).send()) > 0n);
  assert.ok((await rpc.getBlockHeight().send()) >= slot);
  assert.equal((await rpc.getSlotLeaders(slot, 2).send())[0], await rpc.getSlotLeader().send());
  assert.equal((await rpc.getRecentPrioritizationFees().send()).length > 0, true);
  const latest = (await rpc.getLatestBlockhash().send()).value.blockhash;
  assert.equal((await rpc.isBlockhashValid(latest).send()).value, true);
  const target = (await generateKeyPairSigner()).address;
  const compiled = compileTransactionMessage(await message(transfer(payer, target, 1n)));
  const text = getBase64Decoder().decode(getCompiledTransactionMessageEncoder().encode(compiled));
  assert.equal((await rpc.getFeeForMessage(text).send()).value, 5000n);
  assert.ok(compileTransaction(await message(transfer(payer, target, 1n))).messageBytes.length > 0);
  assert.ok((await rpc.getMinimumBalanceForRentExemption(165n).send()) > 0n);
  assert.ok((await rpc.getStakeMinimumDelegation().send()).value > 0n);
  assert.ok((await rpc.getSupply().send()).value.total > 0n);
  assert.equal((await rpc.getLargestAccounts().send()).value.length > 0, true);
  assert.ok((await rpc.getTransactionCount().send()) > 0n);
  assert.equal(await rpc.getFirstAvailableBlock().send(), 0n);
  assert.equal(await rpc.minimumLedgerSlot().send(), 0n);
  assert.equal((await rpc.getClusterNodes().send())[0].pubkey, identity);
  for (const each of await rpc.getRecentPerformanceSamples().send()) assert.ok(each.numSlots > 0n);
  assert.ok((await rpc.getVersion().send())["solana-core"]);
  assert.equal((await rpc.getGenesisHash().send()).length > 30, true);
  assert.ok(epoch >= 0n);
  step("the other reads");
}

await airdrop();
await transferAndConfirm();
await refusals();
await tokens();
await everythingElse();
console.log(JSON.stringify(steps));
process.exit(0);
