// Creates a wallet, pays and is refused, by the client that @hey-api/openapi-ts generated into
// ./solward. Arguments: ADDRESS TOKEN SELLER; prints what came of it.

import { airdrop, createWallet, getBalance, pay, swap, transfer } from './solward';
import { client } from './solward/client.gen';

declare const process: { argv: string[] };

async function main(): Promise<void> {
  const [baseUrl, auth, seller] = process.argv.slice(2) as [string, string, string];
  client.setConfig({ baseUrl, auth });
  const { walletId } = (await createWallet({ body: { name: 'generated' }, throwOnError: true })).data;
  const payee = (await createWallet({ body: { name: 'payee' }, throwOnError: true })).data;
  const path = { walletId };
  await airdrop({ path, body: { amount: 2 }, throwOnError: true });
  const bought = await swap({
    path,
    body: { inputToken: 'SOL', outputToken: 'USDC', amount: 0.1 },
  });
  const sent = await transfer({ path, body: { to: payee.address, amount: 0.5 } });
  const over = await transfer({ path, body: { to: payee.address, amount: 1000 } });
  const paid = await pay({ path, body: { url: seller, max: '0.05 USDC' } });
  const dear = await pay({ path, body: { url: seller, max: '0.005 USDC' } });
  const balance = await getBalance({ path: { walletId: payee.walletId }, throwOnError: true });
  console.log(
    JSON.stringify({
      statuses: [bought, sent, over, paid, dear].map((each) => each.response?.status),
      transfer: sent.data && 'status' in sent.data ? sent.data.status : null,
      refusals: [over.error?.error, dear.error?.error],
      served:
        paid.data && 'payment' in paid.data && paid.data.payment ? paid.data.payment.served : null,
      payee: balance.data.sol,
    }),
  );
}

main();
