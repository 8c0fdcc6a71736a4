// Makes a replica set and the accounts:  mongosh --quiet --nodb mongodb-init.js
//
// MONGODB_HOST              the server to ask; while nobody has an account, this machine's own
// MONGODB_MEMBERS           all servers of the set, with commas; that one alone, if not given
// MONGODB_ROOT_PASSWORD     for root, who may do everything
// MONGODB_PASSWORD          for quartermaster, the application
// MONGODB_BACKUP_PASSWORD   for backup, if there is to be one
//
// Safe to repeat: what is there stays, and the two lesser passwords become those that are given.

const host = process.env.MONGODB_HOST || "localhost:27017";
const members = (process.env.MONGODB_MEMBERS || host).split(",");
const PATIENCE = 120;
const AUTHENTICATION_FAILED = 18;
const NOT_YET_INITIALIZED = 94;
const UNAUTHORIZED = 13;

// Until a member is elected, which takes a dozen seconds, nobody can write.
function wait_for(what, holds) {
  for (let tries = 0; tries < PATIENCE * 5; tries++) {
    const found = holds();
    if (found) return found;
    sleep(200);
  }
  throw new Error(`${what} in ${PATIENCE} seconds.`);
}

function connect_as(credentials) {
  const address = `mongodb://${credentials}${host}/admin?directConnection=true`;
  return wait_for(`${host} did not answer`, () => {
    try {
      const admin = new Mongo(address).getDB("admin");
      admin.runCommand({ ping: 1 });
      return admin;
    } catch (error) {
      if (error.code === AUTHENTICATION_FAILED) throw error;
      return null;
    }
  });
}

function connect_as_root() {
  return connect_as(`root:${encodeURIComponent(process.env.MONGODB_ROOT_PASSWORD)}@`);
}

function initiate(admin) {
  try {
    admin.runCommand({ replSetGetStatus: 1 });
  } catch (error) {
    if (error.code !== NOT_YET_INITIALIZED) throw error;
    // The first goes before the others, for accounts can only be made where one can write.
    const list = members.map((host, _id) => ({ _id, host, priority: _id === 0 ? 2 : 1 }));
    admin.runCommand({ replSetInitiate: { _id: "qm", members: list } });
  }
  wait_for(`${host} did not become the primary`, () => admin.hello().isWritablePrimary);
}

// Whoever asks from the machine itself may make the first account, and no more than that.
function begin() {
  const admin = connect_as("");
  try {
    initiate(admin);
  } catch (error) {
    if (error.code !== UNAUTHORIZED) throw error;
    throw new Error("There are accounts already, and root has another password than the one given.");
  }
  admin.createUser({ user: "root", pwd: process.env.MONGODB_ROOT_PASSWORD, roles: ["root"] });
}

function keep_account(database, user, pwd, roles) {
  if (database.getUser(user)) database.updateUser(user, { pwd, roles });
  else database.createUser({ user, pwd, roles });
}

let admin;
try {
  admin = connect_as_root();
} catch (error) {
  if (error.code !== AUTHENTICATION_FAILED) throw error;
  begin();
  admin = connect_as_root();
}
initiate(admin);

// dbAdmin is for "quartermaster db init", which makes indexes and validators.
keep_account(admin.getSiblingDB("quartermaster"), "quartermaster", process.env.MONGODB_PASSWORD, [
  { role: "readWrite", db: "quartermaster" },
  { role: "dbAdmin", db: "quartermaster" },
]);
if (process.env.MONGODB_BACKUP_PASSWORD)
  keep_account(admin, "backup", process.env.MONGODB_BACKUP_PASSWORD, ["backup", "restore"]);
print("The replica set and the accounts are ready.");
