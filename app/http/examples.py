"""The values in the examples of the documentation, from the demo world. Pure."""

PLAYER = "Ebrensha"
PLAYER_ID = "18e4d157-7c05-4e6e-97e0-1c81530fc97b"
OTHER_PLAYER = "Aladric"
OTHER_PLAYER_ID = "3825349b-5b55-4b30-b352-441cf2bffc2c"
ENTRY = "697e4f3c2b1a09d8e7f6a5b4"
UNDO_ENTRY = "697e50112b1a09d8e7f6a5c7"
USER = "norunvel"
USER_ID = "340408de-4e62-4fe6-85a6-ce15ac7bbc9e"
EMAIL = "norunvel@example.com"
# A health potion, which stacks, and a bag in the character's inventory.
ITEM = "4cbcc54c-e669-490f-89d7-6e99eef1e894"
BAG_ITEM = "19bc611c-318c-4462-bba2-0bf845050150"
BAG = "c33730dc-ad41-4f5a-8922-f85454c314b1"
# A spell that the character has not learned, and one that it has.
SPELL = "72d9e6ad-da4c-4bfd-8e0f-f24f2a55a4b4"
KNOWN_SPELL = "bc51ac87-d8c1-424e-93ab-061befeb8765"
# The step of a quest.
VARIABLE = "f14ee207-5a73-49e7-9346-a4fc9622a8c3"
# The experience rate of the demo world.
GLOBAL_VARIABLE = "9f871167-ed94-4bdc-8cda-4aa26fa0baf8"
CLASS = "b2216dc2-92d9-40b8-be84-4105a5a0526c"
MAP = "21412805-2bec-4483-a89a-ad60590638ff"
SIGN_IN = "3c6ad0f2-51c4-4c1d-a5a0-7b1f6ad0e9c4"
KEY_ID = "7d2f4c1a-90b3-4c57-a2f1-6e0b8c5d3f48"
KEY = "qm_ExampleExampleExampleExampleExampleExamp1tiqTc"
NOTE = "e0b7a1f6-2d1e-4b0c-8f2b-5a3f0d9c7e12"
TOKEN = "b0e1f3a4-6c1c-4f5e-9a35-0d6a4f2f9c11"  # noqa: S105
ACTION = "5b1c9f3e-7a44-4d0e-8c36-2f9d1e7a6b05"
BATCH = "8e2a6c5d-41f7-4b39-9d08-7c3b5a1f2e64"
GUILD = "c2aacfe6-6dfb-431a-8872-2ca2382059cc"
# An event that a game reports.
EVENT = "world-1:4711"
# The name of a game server.
GAME = "world-1"
CURSOR_EXAMPLE = "NwAAABBOAAEAAAAQTwABAAAAB1MAZ.q1w2e3r4t5y6u7i8o9p0"
STATS = "Attack, ability power, defense, magic resist, speed."
