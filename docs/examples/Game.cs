// What a game does in the database that it shares with Quartermaster: see docs/game.rst.
//
//     dotnet new console && dotnet add package MongoDB.Driver
//     dotnet add package Konscious.Security.Cryptography.Argon2
//     dotnet run -- "mongodb://127.0.0.1:27017/?directConnection=true"
//
// checks the name keys, and plays it through once: it makes an account and a character, and waits
// for a gift to it. case_folding.txt, name_keys.json, new_user.json and new_player.json lie in the
// folder that it is run in. It is written for version 3 of the official driver.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Tasks;
using Konscious.Security.Cryptography;
using MongoDB.Bson;
using MongoDB.Driver;

public sealed class GoneException : Exception { }

public sealed class BusyException : Exception { }

public static class NameKeys
{
    private static readonly Dictionary<int, string> Folded = ReadFolding("case_folding.txt");

    public static string Key(string name)
    {
        var text = name.Normalize(NormalizationForm.FormC);
        var key = new StringBuilder();
        for (var at = 0; at < text.Length; at += char.IsSurrogatePair(text, at) ? 2 : 1)
        {
            var character = char.ConvertToUtf32(text, at);
            key.Append(Folded.TryGetValue(character, out var to) ? to : char.ConvertFromUtf32(character));
        }
        return key.ToString().Normalize(NormalizationForm.FormC);
    }

    public static List<string> Tails(string key)
    {
        var starts = Enumerable.Range(0, key.Length).Where(at => !char.IsLowSurrogate(key[at])).ToList();
        return starts.Take(Math.Max(0, starts.Count - 2)).Select(start => key.Substring(start)).ToList();
    }

    private static Dictionary<int, string> ReadFolding(string path)
    {
        var table = new Dictionary<int, string>();
        foreach (var line in File.ReadLines(path))
        {
            var parts = line.Split(new[] { "; " }, StringSplitOptions.None);
            if (line.StartsWith("#", StringComparison.Ordinal) || parts.Length < 3) continue;
            if (parts[1] != "C" && parts[1] != "F") continue;
            var codes = parts[2].TrimEnd(';').Split(' ').Select(Code);
            table[Code(parts[0])] = string.Concat(codes.Select(char.ConvertFromUtf32));
        }
        return table;
    }

    private static int Code(string text) => int.Parse(text, NumberStyles.HexNumber, CultureInfo.InvariantCulture);
}

public static class Passwords
{
    // argon2id: passes, KiB of memory, lanes.
    private const int Passes = 2, Memory = 19456, Lanes = 1;

    public static string Hash(string password)
    {
        var salt = new byte[16];
        using (var random = RandomNumberGenerator.Create()) random.GetBytes(salt);
        var hash = Argon2Id(password, salt, Passes, Memory, Lanes, 32);
        return $"$argon2id$v=19$m={Memory},t={Passes},p={Lanes}${Text(salt)}${Text(hash)}";
    }

    public static bool IsPassword(string stored, string password)
    {
        var parts = (stored ?? "").Split('$');
        if (parts.Length != 6 || parts[1] != "argon2id" || parts[2] != "v=19") return false;
        var cost = parts[3].Split(',').Select(part => int.Parse(part.Substring(2))).ToArray();
        byte[] salt = Bytes(parts[4]), hash = Bytes(parts[5]);
        var own = Argon2Id(password, salt, cost[1], cost[0], cost[2], hash.Length);
        return CryptographicOperations.FixedTimeEquals(own, hash);
    }

    private static byte[] Argon2Id(string password, byte[] salt, int passes, int memory, int lanes, int length)
    {
        byte[] digest;
        using (var sha256 = SHA256.Create()) digest = sha256.ComputeHash(Encoding.UTF8.GetBytes(password));
        var hex = BitConverter.ToString(digest).Replace("-", ""); // upper case
        var argon2 = new Argon2id(Encoding.ASCII.GetBytes(hex))
        {
            Salt = salt, Iterations = passes, MemorySize = memory, DegreeOfParallelism = lanes,
        };
        return argon2.GetBytes(length);
    }

    private static string Text(byte[] bytes) => Convert.ToBase64String(bytes).TrimEnd('=');

    private static byte[] Bytes(string text) => Convert.FromBase64String(text + new string('=', -text.Length & 3));
}

public sealed class GameDatabase
{
    private const int Tries = 50, Many = 1000;

    private static readonly BsonDocument Absent = new BsonDocument("$exists", false);

    // Writes of the service set ChangedAt; writes of a game do not.
    private static readonly BsonDocument ByTheService = BsonDocument.Parse(@"{ $match: { $or: [
        { operationType: 'update', 'updateDescription.updatedFields.ChangedAt': { $exists: true } },
        { operationType: { $in: ['insert', 'replace'] }, 'fullDocument.ChangedAt': { $exists: true } } ] } }");

    private readonly Random random = new Random();
    private readonly IMongoCollection<BsonDocument> users;
    private readonly IMongoCollection<BsonDocument> players;

    public GameDatabase(IMongoDatabase db)
    {
        users = db.GetCollection<BsonDocument>("users");
        players = db.GetCollection<BsonDocument>("players");
    }

    // Changes single fields of a player, based on its current content. Null changes nothing.
    public async Task ChangeAsync(string id, Func<BsonDocument, BsonDocument> decide)
    {
        for (var i = 0; i < Tries; i++)
        {
            var there = new BsonDocument("_id", id);
            var player = await players.Find(there).FirstOrDefaultAsync();
            if (player == null) throw new GoneException();
            var update = decide(player);
            if (update == null) return;
            update["$inc"] = new BsonDocument("Version", 1);
            var unchanged = new BsonDocument { { "_id", id }, { "Version", player.GetValue("Version", Absent) } };
            var result = await players.UpdateOneAsync(unchanged, update);
            if (result.MatchedCount == 1) return;
            await Task.Delay(random.Next(20));
        }
        throw new BusyException();
    }

    // Makes an account. If name or address is taken: MongoWriteException with the category DuplicateKey.
    public async Task<string> MakeAccountAsync(string name, string email, string password)
    {
        if (email.Any(c => c > 127))
            throw new ArgumentException("Let the service register this address: its key needs IDNA.");
        var user = BsonDocument.Parse(File.ReadAllText("new_user.json"));
        Identify(user, name);
        user["Email"] = email;
        user["EmailKey"] = email.ToLowerInvariant();
        user["PasswordHash"] = Passwords.Hash(password);
        await users.InsertOneAsync(user);
        return user["_id"].AsString;
    }

    // Makes a character. If the name is taken: MongoWriteException with the category DuplicateKey.
    public async Task<string> MakeCharacterAsync(string userId, string name)
    {
        var player = BsonDocument.Parse(File.ReadAllText("new_player.json"));
        Identify(player, name);
        player["UserId"] = userId;
        await players.InsertOneAsync(player);
        return player["_id"].AsString;
    }

    private static void Identify(BsonDocument document, string name)
    {
        var key = NameKeys.Key(name);
        document["_id"] = Guid.NewGuid().ToString(); // a text, not a Guid
        document["Name"] = name;
        document["NameKey"] = key;
        document["NameTails"] = new BsonArray(NameKeys.Tails(key));
        document["CreationDate"] = DateTime.UtcNow;
    }

    // Reports who is playing: at log-in, and about every 30 seconds for all players at once.
    public async Task HeartbeatAsync(IReadOnlyList<string> playing)
    {
        var seen = BsonDocument.Parse("{ $set: { Online: true }, $currentDate: { LastSeen: true } }");
        for (var start = 0; start < playing.Count; start += Many)
        {
            var some = new BsonDocument("$in", new BsonArray(playing.Skip(start).Take(Many)));
            var these = new BsonDocument("_id", some);
            await players.UpdateManyAsync(these, seen);
        }
    }

    public Task LogOutAsync(string playerId)
    {
        var left = BsonDocument.Parse(
            "{ $set: { Online: false }, $currentDate: { LastSeen: true, LastOnline: true } }");
        return players.UpdateOneAsync(new BsonDocument("_id", playerId), left);
    }

    // Moves the content of a slot, such as "Inventory.3", to an empty one, such as "Bank.7".
    public async Task<bool> MoveItemAsync(string playerId, string source, string target)
    {
        var moved = false;
        await ChangeAsync(playerId, player =>
        {
            var held = Slot(player, source);
            moved = held != null && Slot(player, target) == null;
            if (!moved) return null;
            return new BsonDocument
            {
                { "$set", new BsonDocument(target, held) },
                { "$unset", new BsonDocument(source, "") },
            };
        });
        return moved;
    }

    private static BsonDocument Slot(BsonDocument player, string path)
    {
        var parts = path.Split('.');
        var slots = player.GetValue(parts[0], BsonNull.Value) as BsonDocument;
        return slots?.GetValue(parts[1], BsonNull.Value) as BsonDocument;
    }

    // Puts as many items into the inventory as fit there, and returns how many.
    public async Task<int> PickUpAsync(string playerId, string item, int quantity, int size, int limit)
    {
        var left = quantity;
        await ChangeAsync(playerId, player =>
        {
            left = quantity;
            var changed = new BsonDocument();
            var paths = Enumerable.Range(0, size).Select(number => $"Inventory.{number}");
            foreach (var path in paths.OrderBy(path => Slot(player, path) == null)) // stacks first
            {
                var held = Slot(player, path) ?? new BsonDocument { { "ItemId", item }, { "Quantity", 0 } };
                if (held["ItemId"] != item || held.Contains("BagId") || held.Contains("StatBuffs")) continue;
                var added = Math.Min(left, limit - held["Quantity"].ToInt32());
                if (added <= 0) continue;
                left -= added;
                held["Quantity"] = held["Quantity"].ToInt32() + added;
                changed[path] = held;
            }
            return changed.ElementCount == 0 ? null : new BsonDocument("$set", changed);
        });
        return quantity - left;
    }

    // Calls a function for every write of the service to a player: gifts, names, variables and so on.
    // The function gets the player and the resume token, and returns whether to continue.
    public async Task GiftsAsync(BsonDocument resume, Func<BsonDocument, BsonDocument, bool> arrived)
    {
        var options = new ChangeStreamOptions
        {
            FullDocument = ChangeStreamFullDocumentOption.UpdateLookup, ResumeAfter = resume,
        };
        var stages = new BsonDocument[] { ByTheService };
        var pipeline = PipelineDefinition<ChangeStreamDocument<BsonDocument>, ChangeStreamDocument<BsonDocument>>
            .Create(stages);
        using (var stream = await players.WatchAsync(pipeline, options))
            while (await stream.MoveNextAsync())
                foreach (var change in stream.Current)
                    if (change.FullDocument != null && !arrived(change.FullDocument, change.ResumeToken))
                        return;
    }
}

public static class Program
{
    public static async Task Main(string[] arguments)
    {
        CheckNameKeys("name_keys.json");
        var game = new GameDatabase(new MongoClient(arguments[0]).GetDatabase("quartermaster"));
        var name = "Nova" + Guid.NewGuid().ToString("N").Substring(0, 8);
        var userId = await game.MakeAccountAsync(name, name + "@example.com", "secret");
        var playerId = await game.MakeCharacterAsync(userId, name);
        await game.HeartbeatAsync(new[] { playerId });
        var picked = await game.PickUpAsync(playerId, Guid.NewGuid().ToString(), 30, 35, 20);
        var moved = await game.MoveItemAsync(playerId, "Inventory.1", "Bank.0");
        Console.WriteLine($"Picked up: {picked} moved: {moved}");
        Console.WriteLine($"Give something to {name}, in the console or with curl.");
        await game.GiftsAsync(null, (player, _) =>
        {
            if (player["_id"] == playerId)
                Console.WriteLine($"Now the inventory holds: {player["Inventory"]}");
            return player["_id"] != playerId;
        });
        await game.LogOutAsync(playerId);
    }

    // Compares the functions above with the vectors of name_keys.json.
    private static void CheckNameKeys(string path)
    {
        foreach (var vector in BsonDocument.Parse(File.ReadAllText(path))["Names"].AsBsonArray)
        {
            var key = NameKeys.Key(vector["Name"].AsString);
            var tails = vector["Tails"].AsBsonArray.Select(tail => tail.AsString);
            if (key != vector["Key"].AsString || !NameKeys.Tails(key).SequenceEqual(tails))
                throw new InvalidOperationException($"{vector["Name"]} has the key {key}: {vector["Shows"]}");
        }
    }
}
