/// The numbers a message must keep to (threat T3).
package struct ReaderLimits: Sendable {
    /// Start line and header fields together, in bytes.
    package var head = 16 * 1024
    package var headerFields = 128
    package var uri = 2 * 1024
    package var body = 64 * 1024
    package var contacts = 20

    package init() {}
}
