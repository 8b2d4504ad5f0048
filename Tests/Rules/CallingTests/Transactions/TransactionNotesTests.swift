@testable import Calling
import SIPTransactions
import Testing

@Suite("Notes about transactions")
struct TransactionNotesTests {
    /// The ids of three transactions: the third transaction uses the table slot of the first, which has ended.
    private let ids = [1 << 24 | 2, 2 << 24, 3 << 24 | 2].map { ClientTransactionID(rawValue: $0) }

    @Test func `a note belongs to its transaction, and not to the slot`() {
        var notes = TransactionNotes<ClientTransactionID, String>()
        #expect(notes[ids[0]] == nil)
        notes[ids[0]] = "a"
        notes[ids[1]] = "b"
        #expect(notes[ids[0]] == "a" && notes[ids[1]] == "b" && notes[ids[2]] == nil)
        notes[ids[2]] = "c"
        // The note of the first transaction remains until the core learns that the transaction has ended.
        #expect(notes[ids[0]] == "a" && notes[ids[2]] == "c")
        notes[ids[0]] = "d"
        #expect(notes.take(ids[0]) == "d" && notes[ids[0]] == nil && notes.take(ids[0]) == nil)
        notes[ids[0]] = nil
        #expect(notes[ids[2]] == "c")
        #expect(notes.take(ids[2]) == "c" && notes[ids[2]] == nil)
    }
}
