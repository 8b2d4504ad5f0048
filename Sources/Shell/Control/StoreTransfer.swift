import Persistence
package import ProxyRuntime

/// Copies the store from one database into another, while no daemon runs.
package enum StoreTransfer {
    /// - Parameters:
    ///   - source: the place of the store, such as `sqlite:/var/lib/sippushd/sippushd.db`.
    ///   - target: the place of the copy, such as `postgresql:host=db dbname=sippushd`.
    ///   - progress: receives each table with the number of its rows.
    /// - Returns: the number of copied rows.
    /// - Throws: an error if a store fails, or if both stores differ.
    package static func copy(
        from source: String, to target: String, _ progress: (_ table: String, _ rows: Int, _ digest: String) -> Void
    ) throws(StartError) -> Int {
        do throws(StoreError) {
            let copy = try StoreCopy(from: try StorePlace(copied: source), to: try StorePlace(copied: target))
            return try copy.run { progress($0.table, $0.rows, $0.digest) }.reduce(0) { $0 + $1.rows }
        } catch {
            throw StartError(error)
        }
    }
}
