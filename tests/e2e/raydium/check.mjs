// What Raydium's own SDK makes of pools and swaps: node check.mjs < cases.json > answers.json
// A case: the pool's and its configuration's bytes, who swaps what, and the program.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

// The package's ES build imports a folder, which node refuses; its other build is the same code.
const require = createRequire(import.meta.url);
const {
  CpmmConfigInfoLayout,
  CpmmPoolInfoLayout,
  CurveCalculator,
  makeSwapCpmmBaseInInstruction,
} = require("@raydium-io/raydium-sdk-v2");
const { PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");

const key = (text) => new PublicKey(text);

const answers = JSON.parse(readFileSync(0, "utf8")).map((each) => {
  const pool = CpmmPoolInfoLayout.decode(Buffer.from(each.pool, "base64"));
  const config = CpmmConfigInfoLayout.decode(Buffer.from(each.config, "base64"));
  const sides = each.first ? ["A", "B"] : ["B", "A"];
  const [authority] = PublicKey.findProgramAddressSync(
    [Buffer.from("vault_and_lp_mint_auth_seed")],
    key(each.program),
  );
  const instruction = makeSwapCpmmBaseInInstruction(
    key(each.program),
    key(each.taker),
    authority,
    pool.configId,
    key(each.address),
    key(each.source),
    key(each.destination),
    ...sides.map((side) => pool[`vault${side}`]),
    ...sides.map((side) => pool[`mintProgram${side}`]),
    ...sides.map((side) => pool[`mint${side}`]),
    pool.observationId,
    new BN(each.amount),
    new BN(each.minimum),
  );
  const reserves = sides.map((side) =>
    new BN(each.held[side])
      .sub(pool[`protocolFeesMint${side}`])
      .sub(pool[`fundFeesMint${side}`])
      .sub(pool[`creatorFeesMint${side}`]),
  );
  const onInput = pool.feeOn === 0 || pool.feeOn === (each.first ? 1 : 2);
  const traded = CurveCalculator.swapBaseInput(
    new BN(each.amount),
    ...reserves,
    config.tradeFeeRate,
    pool.enableCreatorFee ? config.creatorFeeRate : new BN(0),
    config.protocolFeeRate,
    config.fundFeeRate,
    onInput,
  );
  return {
    program: instruction.programId.toBase58(),
    data: instruction.data.toString("base64"),
    accounts: instruction.keys.map((meta) => [
      meta.pubkey.toBase58(),
      meta.isSigner,
      meta.isWritable,
    ]),
    out: traded.outputAmount.toString(),
  };
});
process.stdout.write(JSON.stringify(answers));
