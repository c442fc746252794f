"""L'atelier du cours : ce qui fabrique les notebooks et le livre."""
