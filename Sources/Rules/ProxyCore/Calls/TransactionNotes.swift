import SIPTransactions

/// What the core notes of its transactions, at most one thing of each: found by the number alone, as the transactions are
/// themselves.
///
/// A transaction may have ended, and its place belong to another one, before the core is told: two that end in the same moment
/// are told of one after the other, and what follows from the first may begin a new one. So a note whose place is taken is kept
/// beside, until the core takes it.
struct TransactionNotes<ID: TransactionID, Note> {
    private var notes: [(id: ID, note: Note)?] = []
    private var displaced: [ID: Note] = [:]

    subscript(id: ID) -> Note? {
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

    mutating func take(_ id: ID) -> Note? {
        guard let note = self[id] else { return nil }
        self[id] = nil
        return note
    }
}
