import Timekeeping

extension StoredRow {
    /// The registration or clean-up in the current row; `nil` if the row is malformed.
    var storedDeviceRequest: DeviceRequest? {
        guard let id = RequestID(text(1)), let kind = DeviceRequest.Kind(rawValue: text(2)),
            let platform = DeviceRequest.Platform(rawValue: text(5))
        else { return nil }
        let url = text(8)
        return DeviceRequest(
            id: id, kind: kind, app: text(3), user: text(4), platform: platform, token: text(6),
            isTracked: integer(7) != 0,
            callback: url.isEmpty ? nil : DeviceCallback(url: url, signature: text(9), fields: text(10)),
            acceptedAt: UnixTime(milliseconds: integer(11)))
    }
}
