import Bytes
import Collections
import PushDelivery
import Timekeeping

extension StoredRow {
    /// The dead token in the current row; `nil` if the row is malformed.
    var storedDeadToken: DeadToken? {
        guard let provider = PushProvider(rawValue: text(3)), let source = DeadToken.Source(rawValue: text(6)) else {
            return nil
        }
        return DeadToken(
            token: PushToken(provider: provider, param: byteString(4), prid: byteString(5)),
            since: UnixTime(milliseconds: integer(2)), recordedAt: UnixTime(milliseconds: integer(1)), source: source,
            domain: byteString(7))
    }
}
