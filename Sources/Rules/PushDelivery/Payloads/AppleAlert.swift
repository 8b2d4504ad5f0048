import Bytes
import JSON

extension Array<UInt8> {
    /// Appends the members `alert` and `sound` to the `aps` of a push to an Apple device.
    mutating func append(
        alert title: ByteString, _ text: ByteString, _ limits: TextLimits, sound: ByteString = ByteString("default")
    ) {
        append("\"alert\":{\"title\":")
        append(jsonString: title, atMost: limits.title)
        append(",\"body\":")
        append(jsonString: text, atMost: limits.text)
        append("},\"sound\":")
        append(jsonString: sound)
    }

    mutating func append(alert notification: PushNotification, _ limits: TextLimits) {
        append(alert: notification.title, notification.text, limits, sound: notification.soundName)
    }
}
