// How a game in Node.js uses the database that it shares with Quartermaster: see docs/game.rst.
//
//     npm install mongodb
//     node game.js mongodb://127.0.0.1:27017/?directConnection=true
//
// makes a character, runs through all functions, and prints the character's id. An account is best
// made by the service: see "Make an account". The files new_player.json and case_folding.txt are in
// the same folder.
"use strict";

const { randomUUID } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { BSON, Long, MongoClient } = require("mongodb");

const TRIES = 50;
const NEW_PLAYER = readFileSync(join(__dirname, "new_player.json"), "utf8");
const FOLDED = readFolding(readFileSync(join(__dirname, "case_folding.txt"), "utf8"));

// The driver stores a number as an int only if it fits 32 bits: 3e9 and -0 would become doubles,
// which MongoDB refuses with the code 121. A number beyond 2^53 must be a BigInt from the start.
function whole(number) {
  if (typeof number === "bigint") return Long.fromBigInt(number);
  if (!Number.isSafeInteger(number)) throw new RangeError(`${number} is not a whole number.`);
  return Long.fromNumber(number);
}

// Neither toLowerCase nor toUpperCase is case folding: "STRASSE" and "Straße" are one name.
function nameKey(name) {
  const folded = Array.from(name.normalize("NFC"), (char) => FOLDED.get(char) ?? char);
  return folded.join("").normalize("NFC");
}

// Characters are code points: Array.from splits by them, and slice would not.
function nameTails(key) {
  const chars = Array.from(key);
  return chars.slice(0, Math.max(0, chars.length - 2)).map((_, at) => chars.slice(at).join(""));
}

function readFolding(text) {
  const character = (code) => String.fromCodePoint(parseInt(code, 16));
  const lines = text.split("\n").filter((line) => line && !line.startsWith("#"));
  const rows = lines.map((line) => line.split(";").map((part) => part.trim()));
  const wanted = rows.filter(([, status]) => status === "C" || status === "F");
  return new Map(wanted.map(([from, , to]) => [character(from), to.split(" ").map(character).join("")]));
}

// Changes single fields of a document, based on its current content. decide returns the update, or
// null; it may be called several times, so it must have no side effects.
async function change(collection, id, decide) {
  for (let tries = 0; tries < TRIES; tries++) {
    const found = await collection.findOne({ _id: id }, { promoteLongs: false });
    if (!found) throw new Error(`${id} no longer exists.`);
    const update = decide(found);
    if (!update) return false;
    const unchanged = { _id: id, Version: found.Version ?? { $exists: false } };
    const counted = { ...update, $inc: { Version: 1 } };
    if ((await collection.updateOne(unchanged, counted)).matchedCount) return true;
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
  }
  throw new Error(`Others changed ${id} at every try.`);
}

// Makes a character. If the name is taken, the error has the code 11000.
async function makeCharacter(db, userId, name, fields = {}) {
  // relaxed: false keeps the ints and longs of the file as they are.
  const player = BSON.EJSON.parse(NEW_PLAYER, { relaxed: false });
  const key = nameKey(name);
  const named = { Name: name, NameKey: key, NameTails: nameTails(key) };
  const own = { _id: randomUUID(), UserId: userId, CreationDate: new Date() };
  await db.collection("players").insertOne({ ...player, ...named, ...own, ...fields });
  return own._id;
}

// Moves the content of a slot, such as "Inventory.3", to an empty one, such as "Bank.7".
function moveItem(db, playerId, source, target) {
  const slot = (player, path) => path.split(".").reduce((map, name) => map?.[name], player);
  return change(db.collection("players"), playerId, (player) => {
    const held = slot(player, source);
    if (!held || slot(player, target)) return null;
    return { $set: { [target]: held }, $unset: { [source]: "" } };
  });
}

// Reports who is playing, at log-in and about every 30 seconds for all players at once.
async function heartbeat(db, playing) {
  const update = { $set: { Online: true }, $currentDate: { LastSeen: true } };
  await db.collection("players").updateMany({ _id: { $in: playing } }, update);
}

// Reports an event; more may be Items, Text and With. One that was reported before changes nothing.
async function report(db, eventId, playerId, kind, more = {}) {
  const at = new Date();
  const event = { _id: eventId, Player: playerId, Kind: kind, At: at, ...more };
  const expires = new Date(at.getTime() + 30 * 86_400_000);
  try {
    await db.collection("game_events").insertOne({ ...event, ExpiresAt: expires });
  } catch (error) {
    if (error.code !== 11000) throw error;
  }
}

// Takes the oldest waiting action, and reports that this game polls.
async function takeAction(db, game) {
  const look = { $currentDate: { LookedAt: true } };
  const options = { upsert: true, returnDocument: "after" };
  const { LookedAt } = await db.collection("games").findOneAndUpdate({ _id: game }, look, options);
  const waiting = { Taken: null, TakeBefore: { $gt: LookedAt } };
  const taken = { $currentDate: { Taken: true }, $set: { TakenBy: game } };
  return db.collection("actions").findOneAndUpdate(waiting, taken, { sort: { TakeBefore: 1 } });
}

// Takes a letter to a player who is online, or one that this game took and did not answer.
function takeLetter(db, game, playing) {
  const unanswered = { TakenBy: game, TakerId: null, Done: null, Error: null };
  const mine = { Kind: "letter", "Subject.Id": { $in: playing } };
  const taken = { $currentDate: { Taken: true }, $set: { TakenBy: game } };
  const where = { ...mine, $or: [{ Taken: null }, unanswered] };
  return db.collection("actions").findOneAndUpdate(where, taken, { sort: { At: 1 } });
}

// Reports that an action or a letter is done, or why it failed.
async function answerAction(db, id, error = null, result = null) {
  const done = { $set: { Result: result }, $currentDate: { Done: true } };
  const update = error ? { $set: { Error: error } } : done;
  await db.collection("actions").updateOne({ _id: id }, update);
}

async function play(uri) {
  const client = await MongoClient.connect(uri, { appName: "game.js" });
  try {
    const db = client.db("quartermaster");
    const item = randomUUID();
    const sword = { ItemId: item, Quantity: whole(1), StatBuffs: [3, -0, 0, 0, 1].map(whole) };
    const fields = { Exp: whole(3e9), X: whole(-0), Inventory: { 1: sword } };
    const name = `Straße ${randomUUID().slice(0, 8)}`;
    const id = await makeCharacter(db, randomUUID(), name, fields);
    await heartbeat(db, [id]);
    await moveItem(db, id, "Inventory.1", "Bank.0");
    const lost = { ...sword, Quantity: whole(-1) };
    const drop = () => report(db, `${id}:1`, id, "drop", { Items: [lost] });
    await change(db.collection("players"), id, () => ({ $unset: { "Bank.0": "" } }));
    await drop();
    await drop(); // a repeated report changes nothing
    const action = await takeAction(db, "game.js");
    if (action) await answerAction(db, action._id, "This game knows no actions.");
    const letter = await takeLetter(db, "game.js", [id]);
    if (letter) await answerAction(db, letter._id);
    console.log(id);
  } finally {
    await client.close();
  }
}

module.exports = { answerAction, change, makeCharacter, moveItem, nameKey, nameTails, takeLetter, whole };
if (require.main === module) play(process.argv[2]);
