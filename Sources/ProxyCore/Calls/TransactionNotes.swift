import SIPTransactions

/// What the core notes of its transactions, at most one thing of each: found by the number alone, as the transactions are
/// themselves.
struct TransactionNotes<ID: TransactionID, Note> {
    private var notes: [(id: ID, note: Note)?] = []

    subscript(id: ID) -> Note? {
        get {
            guard id.slot < notes.count, let found = notes[id.slot], found.id == id else { return nil }
            return found.note
        }
        set {
            while notes.count <= id.slot { notes.append(nil) }
            if let newValue { notes[id.slot] = (id, newValue) } else if self[id] != nil { notes[id.slot] = nil }
        }
    }

    mutating func take(_ id: ID) -> Note? {
        guard let note = self[id] else { return nil }
        notes[id.slot] = nil
        return note
    }
}
