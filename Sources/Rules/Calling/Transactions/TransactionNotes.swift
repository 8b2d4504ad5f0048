package import SIPTransactions

/// Stores at most one note for each transaction, in the transaction's slot.
///
/// A new transaction can get the slot of an ended transaction before the engine has handled the end. If a new
/// transaction uses the slot, the ended transaction's note moves to ``displaced`` until the engine removes the note.
package struct TransactionNotes<ID: TransactionID, Note> {
    private var notes: [(id: ID, note: Note)?] = []
    private var displaced: [ID: Note] = [:]

    package subscript(id: ID) -> Note? {
        get {
            guard id.slot < notes.count, let found = notes[id.slot], found.id == id else {
                return displaced.isEmpty ? nil : displaced[id]
            }
            return found.note
        }
        set {
            while notes.count <= id.slot { notes.append(nil) }
            if let found = notes[id.slot], found.id != id {
                if newValue == nil || displaced[id] != nil {
                    displaced[id] = newValue
                    return
                }
                displaced[found.id] = found.note
            }
            notes[id.slot] = newValue.map { (id, $0) }
        }
    }

    package mutating func take(_ id: ID) -> Note? {
        guard let note = self[id] else { return nil }
        self[id] = nil
        return note
    }
}
