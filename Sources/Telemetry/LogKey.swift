/// The name of every field that a log line may carry; nothing else may.
package enum LogKey: String, CaseIterable, Sendable {
    // Who and where
    case aor
    case user
    case domain
    case contact
    case device
    case flow
    case source
    case listener
    case target
    case transport

    // Which call
    case callID = "call-id"
    case cseq
    case method
    case branch
    case caller

    // How it went
    case status
    case outcome
    case reason
    case error
    case code
    case attempt
    case duration
    case delay
    case count
    case suppressed
    case limit
    case bytes

    // The API
    case apiKey = "api-key"
    case route

    // Push
    case provider
    case topic
    case token
    case pushID = "push-id"
    case pushKind = "push-kind"
    case payload
    case bucket

    // The program
    case version
    case path
    case position
    case setting
    case url
    case process
    case signal
    case shard
    case schema
    case certificate
    case expires
}
