// What a game does in the database that it shares with Quartermaster: see docs/game.rst.
//
//	go run game.go mongodb://127.0.0.1:27017/?directConnection=true
//
// checks the name keys, and plays it through once: it makes an account and a character, and waits
// for a gift to it. It is written for version 2 of the official driver. With version 1, the imports
// have no /v2, and mongo.Connect takes a context first; nothing else differs.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	mathrand "math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

//go:embed case_folding.txt
var caseFolding string

//go:embed new_user.json
var newUser []byte

//go:embed new_player.json
var newPlayer []byte

var folded = readFolding(caseFolding)

var (
	errGone = errors.New("there is no such document any more")
	errBusy = errors.New("others were faster each time")
)

const (
	tries = 50
	many  = 1000
	// argon2id: passes, KiB of memory, lanes.
	passes, memory, lanes = 2, 19456, 1
)

// Slot is the content of a slot. It has no other fields.
type Slot struct {
	ItemID    string  `bson:"ItemId"`
	Quantity  int32   `bson:"Quantity"`
	BagID     string  `bson:"BagId,omitempty"`
	StatBuffs []int32 `bson:"StatBuffs,omitempty"`
}

// Player is what is read of a player. It is never written as a whole.
type Player struct {
	ID        string          `bson:"_id"`
	Version   *int64          `bson:"Version"`
	Inventory map[string]Slot `bson:"Inventory"`
	Bank      map[string]Slot `bson:"Bank"`
}

func nameKey(name string) string {
	var key strings.Builder
	for _, char := range norm.NFC.String(name) {
		if to, ok := folded[char]; ok {
			key.WriteString(to)
		} else {
			key.WriteRune(char)
		}
	}
	return norm.NFC.String(key.String())
}

func nameTails(key string) []string {
	chars := []rune(key)
	tails := []string{}
	for start := 0; start+3 <= len(chars); start++ {
		tails = append(tails, string(chars[start:]))
	}
	return tails
}

func readFolding(text string) map[rune]string {
	table := map[rune]string{}
	for _, line := range strings.Split(text, "\n") {
		parts := strings.Split(line, "; ")
		if strings.HasPrefix(line, "#") || len(parts) < 3 || !strings.Contains("CF", parts[1]) {
			continue
		}
		to := ""
		for _, code := range strings.Fields(strings.TrimSuffix(parts[2], ";")) {
			to += string(runeOf(code))
		}
		table[runeOf(parts[0])] = to
	}
	return table
}

func runeOf(code string) rune {
	value, err := strconv.ParseInt(code, 16, 32)
	if err != nil {
		panic(err)
	}
	return rune(value)
}

func named(document bson.M, name string) {
	key := nameKey(name)
	document["Name"], document["NameKey"], document["NameTails"] = name, key, nameTails(key)
}

// change writes single fields of a player, based on its current content. An empty update changes nothing.
func change(ctx context.Context, db *mongo.Database, id string, decide func(Player) bson.M) error {
	players := db.Collection("players")
	for i := 0; i < tries; i++ {
		var player Player
		there := bson.M{"_id": id}
		err := players.FindOne(ctx, there).Decode(&player)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return errGone
		} else if err != nil {
			return err
		}
		update := decide(player)
		if len(update) == 0 {
			return nil
		}
		update["$inc"] = bson.M{"Version": 1}
		unchanged := bson.M{"_id": id, "Version": player.Version}
		if player.Version == nil {
			unchanged["Version"] = bson.M{"$exists": false}
		}
		result, err := players.UpdateOne(ctx, unchanged, update)
		if err != nil || result.MatchedCount == 1 {
			return err
		}
		time.Sleep(time.Duration(mathrand.Intn(20)) * time.Millisecond)
	}
	return errBusy
}

// makeAccount makes an account. If the name or the address is taken, mongo.IsDuplicateKeyError(err) is true.
func makeAccount(ctx context.Context, db *mongo.Database, name, email, password string) (string, error) {
	for _, char := range email {
		if char > 127 {
			return "", errors.New("let the service register this address: its key needs IDNA")
		}
	}
	user := bson.M{}
	if err := bson.UnmarshalExtJSON(newUser, false, &user); err != nil {
		return "", err
	}
	named(user, name)
	user["_id"], user["CreationDate"] = newGuid(), time.Now()
	user["Email"], user["EmailKey"] = email, strings.ToLower(email)
	user["PasswordHash"] = hashPassword(password)
	_, err := db.Collection("users").InsertOne(ctx, user)
	return user["_id"].(string), err
}

func hashPassword(password string) string {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		panic(err)
	}
	hash := argon2.IDKey(sha256Hex(password), salt, passes, memory, lanes, 32)
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", memory, passes, lanes, text(salt), text(hash))
}

func isPassword(stored, password string) bool {
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != "v=19" {
		return false
	}
	var m, t uint32
	var p uint8
	_, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &m, &t, &p)
	salt, badSalt := base64.RawStdEncoding.DecodeString(parts[4])
	hash, badHash := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || badSalt != nil || badHash != nil || t < 1 || p < 1 {
		return false
	}
	own := argon2.IDKey(sha256Hex(password), salt, t, m, p, uint32(len(hash)))
	return subtle.ConstantTimeCompare(own, hash) == 1
}

func sha256Hex(password string) []byte {
	return []byte(fmt.Sprintf("%X", sha256.Sum256([]byte(password))))
}

func newGuid() string {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// makeCharacter makes a character. If the name is taken, mongo.IsDuplicateKeyError(err) is true.
func makeCharacter(ctx context.Context, db *mongo.Database, userID, name string) (string, error) {
	player := bson.M{}
	if err := bson.UnmarshalExtJSON(newPlayer, false, &player); err != nil {
		return "", err
	}
	named(player, name)
	player["_id"], player["UserId"], player["CreationDate"] = newGuid(), userID, time.Now()
	_, err := db.Collection("players").InsertOne(ctx, player)
	return player["_id"].(string), err
}

// heartbeat reports who is playing: at log-in, and about every 30 seconds for all players at once.
func heartbeat(ctx context.Context, db *mongo.Database, playing []string) error {
	for len(playing) > 0 {
		some := playing
		if len(some) > many {
			some = some[:many]
		}
		playing = playing[len(some):]
		these := bson.M{"_id": bson.M{"$in": some}}
		seen := bson.M{"$set": bson.M{"Online": true}, "$currentDate": bson.M{"LastSeen": true}}
		if _, err := db.Collection("players").UpdateMany(ctx, these, seen); err != nil {
			return err
		}
	}
	return nil
}

func logOut(ctx context.Context, db *mongo.Database, playerID string) error {
	now := bson.M{"LastSeen": true, "LastOnline": true}
	left := bson.M{"$set": bson.M{"Online": false}, "$currentDate": now}
	_, err := db.Collection("players").UpdateOne(ctx, bson.M{"_id": playerID}, left)
	return err
}

// moveItem moves the content of a slot, such as "Inventory.3", to an empty one, such as "Bank.7".
func moveItem(ctx context.Context, db *mongo.Database, playerID, source, target string) (bool, error) {
	moved := false
	err := change(ctx, db, playerID, func(player Player) bson.M {
		held, isHeld := slot(player, source)
		_, isTaken := slot(player, target)
		moved = isHeld && !isTaken
		if !moved {
			return nil
		}
		return bson.M{"$set": bson.M{target: held}, "$unset": bson.M{source: ""}}
	})
	return moved && err == nil, err
}

func slot(player Player, path string) (Slot, bool) {
	place, number, _ := strings.Cut(path, ".")
	slots := map[string]map[string]Slot{"Inventory": player.Inventory, "Bank": player.Bank}
	held, ok := slots[place][number]
	return held, ok
}

// pickUp puts as many items into the inventory as fit there, and returns how many.
func pickUp(ctx context.Context, db *mongo.Database, playerID, item string, quantity, size, limit int32) (int32, error) {
	var left int32
	err := change(ctx, db, playerID, func(player Player) bson.M {
		left = quantity
		changed := bson.M{}
		for _, wantsStack := range []bool{true, false} { // stacks first, then empty slots
			for number := 0; number < int(size); number++ {
				held, isStack := player.Inventory[strconv.Itoa(number)]
				if isStack != wantsStack || isStack && !isPlain(held, item) {
					continue
				}
				added := limit - held.Quantity
				if added > left {
					added = left
				}
				if added > 0 {
					left -= added
					held.ItemID, held.Quantity = item, held.Quantity+added
					changed["Inventory."+strconv.Itoa(number)] = held
				}
			}
		}
		if len(changed) == 0 {
			return nil
		}
		return bson.M{"$set": changed}
	})
	if err != nil {
		return 0, err
	}
	return quantity - left, nil
}

func isPlain(held Slot, item string) bool {
	return held.ItemID == item && held.BagID == "" && len(held.StatBuffs) == 0
}

// Writes of the service set ChangedAt; writes of a game do not.
var byTheService = bson.M{"$or": bson.A{
	bson.M{"operationType": "update", "updateDescription.updatedFields.ChangedAt": bson.M{"$exists": true}},
	bson.M{"operationType": bson.M{"$in": bson.A{"insert", "replace"}}, "fullDocument.ChangedAt": bson.M{"$exists": true}},
}}

// gifts calls a function for every write of the service to a player: gifts, names, variables and so on.
// The function gets the player and the resume token, and returns whether to continue.
func gifts(ctx context.Context, db *mongo.Database, resume any, arrived func(Player, any) bool) error {
	opts := options.ChangeStream().SetFullDocument(options.UpdateLookup)
	if resume != nil {
		opts.SetResumeAfter(resume)
	}
	pipeline := bson.A{bson.M{"$match": byTheService}}
	stream, err := db.Collection("players").Watch(ctx, pipeline, opts)
	if err != nil {
		return err
	}
	defer stream.Close(ctx)
	for stream.Next(ctx) {
		var event struct {
			FullDocument *Player `bson:"fullDocument"`
		}
		if err := stream.Decode(&event); err != nil {
			return err
		}
		if event.FullDocument != nil && !arrived(*event.FullDocument, stream.ResumeToken()) {
			return nil
		}
	}
	return stream.Err()
}

// checkNameKeys compares the functions above with the vectors of name_keys.json.
func checkNameKeys(path string) error {
	var vectors struct {
		Names []struct {
			Name, Key, Shows string
			Tails            []string
		}
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &vectors)
	}
	if err != nil {
		return err
	}
	for _, vector := range vectors.Names {
		key := nameKey(vector.Name)
		if key != vector.Key || strings.Join(nameTails(key), "\n") != strings.Join(vector.Tails, "\n") {
			return fmt.Errorf("%q has the key %q: %s", vector.Name, key, vector.Shows)
		}
	}
	return nil
}

func main() {
	ctx := context.Background()
	must(checkNameKeys("name_keys.json"))
	client, err := mongo.Connect(options.Client().ApplyURI(os.Args[1]))
	must(err)
	db := client.Database("quartermaster")
	name := "Nova" + newGuid()[:8]
	userID, err := makeAccount(ctx, db, name, name+"@example.com", "secret")
	must(err)
	playerID, err := makeCharacter(ctx, db, userID, name)
	must(err)
	must(heartbeat(ctx, db, []string{playerID}))
	picked, err := pickUp(ctx, db, playerID, newGuid(), 30, 35, 20)
	must(err)
	moved, err := moveItem(ctx, db, playerID, "Inventory.1", "Bank.0")
	must(err)
	fmt.Println("Picked up:", picked, "moved:", moved)
	fmt.Printf("Give something to %s, in the console or with curl.\n", name)
	must(gifts(ctx, db, nil, func(player Player, _ any) bool {
		if player.ID == playerID {
			fmt.Println("Now the inventory holds:", player.Inventory)
		}
		return player.ID != playerID
	}))
	must(logOut(ctx, db, playerID))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
