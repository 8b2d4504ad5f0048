import Addressing
import Bytes
import Storage

/// One row of a query's result. Each database has its own type of rows; the values of the store are read from all
/// types of rows by the same code.
protocol StoredRow {
    func integer(_ column: Int) -> Int64
    func isNull(_ column: Int) -> Bool
    /// Passes the bytes of a text or binary column to `body`, or an empty span for NULL.
    func withBytes<Result>(_ column: Int, _ body: (Span<UInt8>) -> Result) -> Result
    func bytes(_ column: Int) -> [UInt8]
    /// The value of a column as text, with invalid UTF-8 replaced.
    func text(_ column: Int) -> String
}

extension Statement: StoredRow {}

extension StoredRow {
    func byteString(_ column: Int) -> ByteString { withBytes(column) { ByteString(copying: $0) } }

    func deviceID(_ column: Int) -> DeviceID { DeviceID(rawValue: UInt64(bitPattern: integer(column))) }

    func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }
}
