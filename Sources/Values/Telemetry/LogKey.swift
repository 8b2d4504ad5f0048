/// The names of all fields that log lines can have.
package enum LogKey: String, CaseIterable, Sendable {
    // Who and where
    case aor
    case user
    case device
    case source
    case listener
    case target
    case transport

    // Which call
    case callID = "call-id"
    case method
    case caller
    case realm

    // How it went
    case code
    case status
    case outcome
    case reason
    case advice
    case error
    case attempt
    case duration
    case count
    case suppressed
    case bytes

    // The API
    case apiKey = "api-key"
    case route
    case object

    // Push
    case provider
    case topic
    case token
    case payload

    // The program
    case version
    case path
    case date
    case setting
}
