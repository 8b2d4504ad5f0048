import Addressing
import PushDelivery
import PushPlanning
import Timekeeping

extension StoredRow {
    /// The unread push in the current row; `nil` if the row is malformed.
    var storedUnreadPush: UnreadPush? {
        guard let code = PushCode(text(2)) else { return nil }
        return UnreadPush(
            code: code, matter: storedMatter(kind: 3, callRef: 4), device: deviceID(0),
            requestedAt: UnixTime(milliseconds: integer(1)))
    }

    private func storedMatter(kind: Int, callRef: Int) -> UnreadPushes.Matter {
        let kind = TimelineRecord.Kind(rawValue: text(kind))
        if kind == .missedCalls { return .list }
        guard kind == .call, let callRef = UInt64(text(callRef), radix: 16) else { return .other }
        return .call(CallRef(rawValue: callRef))
    }
}
