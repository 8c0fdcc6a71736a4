// Creates the replica set and the accounts:  mongosh --quiet --nodb mongodb-init.js
//
// MONGODB_HOST              the server to connect to; localhost until there is an account
// MONGODB_MEMBERS           all members of the replica set, comma-separated; default: MONGODB_HOST
// MONGODB_ROOT_PASSWORD     of the account root
// MONGODB_PASSWORD          of the account quartermaster, for the application
//
// Idempotent: an existing replica set and root are kept; the other password is updated.

const host = process.env.MONGODB_HOST || "localhost:27017";
const members = (process.env.MONGODB_MEMBERS || host).split(",");
const TIMEOUT_SECONDS = 120;
const AUTHENTICATION_FAILED = 18;
const NOT_YET_INITIALIZED = 94;
const UNAUTHORIZED = 13;

// The election of a primary, before which there are no writes, takes about a dozen seconds.
function wait_for(failure, condition) {
  for (let tries = 0; tries < TIMEOUT_SECONDS * 5; tries++) {
    const found = condition();
    if (found) return found;
    sleep(200);
  }
  throw new Error(`${failure} in ${TIMEOUT_SECONDS} seconds.`);
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
    // The first member, to which this script connects, has the highest priority: only the primary
    // accepts the writes that create accounts.
    const list = members.map((host, _id) => ({ _id, host, priority: _id === 0 ? 2 : 1 }));
    admin.runCommand({ replSetInitiate: { _id: "qm", members: list } });
  }
  wait_for(`${host} did not become the primary`, () => admin.hello().isWritablePrimary);
}

// MongoDB's localhost exception: without any account, a local client may create the first one.
function create_root() {
  const admin = connect_as("");
  try {
    initiate(admin);
  } catch (error) {
    if (error.code !== UNAUTHORIZED) throw error;
    throw new Error("There are accounts already, and root has another password than the one given.");
  }
  admin.createUser({ user: "root", pwd: process.env.MONGODB_ROOT_PASSWORD, roles: ["root"] });
}

// The privilege is one of the cluster, so the role has to be in admin.
function create_or_update_role(admin, role, privileges) {
  if (admin.getRole(role)) admin.updateRole(role, { privileges, roles: [] });
  else admin.createRole({ role, privileges, roles: [] });
}

function create_or_update_account(database, user, pwd, roles) {
  if (database.getUser(user)) database.updateUser(user, { pwd, roles });
  else database.createUser({ user, pwd, roles });
}

let admin;
try {
  admin = connect_as_root();
} catch (error) {
  if (error.code !== AUTHENTICATION_FAILED) throw error;
  create_root();
  admin = connect_as_root();
}
initiate(admin);

create_or_update_role(admin, "parameterReader", [{ resource: { cluster: true }, actions: ["getParameter"] }]);

// parameterReader is for reading transactionLifetimeLimitSeconds and minSnapshotHistoryWindowInSeconds, and
// dbAdmin for "quartermaster db init", which creates indexes and validators. The second database is for trials
// of a restore.
const roles = ["quartermaster", "quartermaster_trial"].flatMap((db) => [
  { role: "readWrite", db },
  { role: "dbAdmin", db },
]);
roles.push({ role: "parameterReader", db: "admin" });
create_or_update_account(admin.getSiblingDB("quartermaster"), "quartermaster", process.env.MONGODB_PASSWORD, roles);
print("The replica set and the accounts are ready.");
