// Makes a replica set of one server, and the application's account. Safe to repeat.

const address = `mongodb://root:${process.env.MONGODB_ROOT_PASSWORD}@${process.env.MONGODB_HOST}/admin?directConnection=true`;
const connection = connect_patiently(60);

function connect_patiently(tries) {
  try {
    return new Mongo(address);
  } catch (error) {
    if (tries === 0) throw error;
    sleep(1000);
    return connect_patiently(tries - 1);
  }
}

const admin = connection.getDB("admin");

try {
  admin.runCommand({ replSetGetStatus: 1 }).ok || initiate();
} catch (error) {
  initiate();
}
while (!admin.hello().isWritablePrimary) sleep(200);

function initiate() {
  const members = [{ _id: 0, host: process.env.MONGODB_HOST }];
  admin.runCommand({ replSetInitiate: { _id: "qm", members } });
}

// dbAdmin is for "quartermaster db init", which makes indexes and validators.
const database = connection.getDB("quartermaster");
const account = {
  pwd: process.env.MONGODB_PASSWORD,
  roles: [
    { role: "readWrite", db: "quartermaster" },
    { role: "dbAdmin", db: "quartermaster" },
  ],
};
if (database.getUser("quartermaster")) database.updateUser("quartermaster", account);
else database.createUser({ user: "quartermaster", ...account });
print("The replica set and the account are ready.");
