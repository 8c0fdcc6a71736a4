// A unique name, so that the collection can be run repeatedly.
pm.collectionVariables.set("newUser", "pm" + Date.now().toString(36));
