import Crypto
import Reactor
import Timekeeping

extension JournalKey {
    /// Returns the key that authenticates the call journal, and creates the key in the daemon's first run.
    ///
    /// - Parameters:
    ///   - tables: a connection that can write.
    ///   - place: the store's name in errors.
    /// - Returns: the key, and whether the key is new.
    /// - Throws: an error if the store cannot be read or written.
    static func stored(in tables: any StoreTables, of place: String) throws(StoreError) -> (
        key: JournalKey, isFirst: Bool
    ) {
        do {
            if let found = try tables.secrets(named: name).first { return (try JournalKey(found.value), false) }
            let made = StoredSecret(
                name: name, createdAt: SystemClock.moment.date, value: try RandomBytes.make(byteCount))
            try tables.keep([.addSecret(made)])
            // Another node of a cluster may have written its key at the same time.
            let kept = try tables.secrets(named: name).first ?? made
            return (try JournalKey(kept.value), true)
        } catch let error as CryptoError {
            throw StoreError("cannot create the key of the call journal: \(error)")
        } catch {
            throw StoreError(place, error)
        }
    }
}
